//! The credential of a request: a token, a key or a certificate.

use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, HeaderName, Uri};
use url::Url;
use vmcp_access::authentication::Authentication;
use vmcp_access::identity::client_certificate::ClientCertificate;
use vmcp_access::identity::credential::{Credential, ProvedRequest, Scheme};
use vmcp_access::oidc::rejection::Rejection;

use vmcp_engine::access::identity::Identity;

/// Header of a key, besides `Authorization`.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// Header of a proof of possession (RFC 9449).
const DPOP: HeaderName = HeaderName::from_static("dpop");
/// The path of MCP, as in the configured URLs of this server.
const PATH: &str = "/mcp";

/// Returns the identity that a request proves.
pub(crate) async fn identify(head: &Parts, authentication: &Authentication) -> Result<Identity, Rejection> {
    let certificate = head.extensions.get::<Arc<ClientCertificate>>().map(AsRef::as_ref);
    let proved = || {
        let mut proofs = head.headers.get_all(DPOP).iter();
        let proof = proofs.next().filter(|_| proofs.next().is_none());
        let proof = proof.and_then(|proof| proof.to_str().ok());
        let urls = authentication.public_urls().flat_map(|url| urls_of(url, &head.uri)).collect();
        ProvedRequest { proof, method: head.method.as_str(), urls }
    };
    identify_by(&head.headers, certificate, authentication, Some(proved)).await
}

/// Returns the identity that the credential of an open stream still proves; its proof was verified when it
/// was opened, and is good once.
pub(crate) async fn identify_again(
    headers: &HeaderMap,
    certificate: Option<&ClientCertificate>,
    authentication: &Authentication,
) -> Result<Identity, Rejection> {
    identify_by(headers, certificate, authentication, None::<fn() -> ProvedRequest<'static>>).await
}

/// `proved` returns the request for a credential that needs a proof; `None` stands for an open stream.
async fn identify_by<'a>(
    headers: &'a HeaderMap,
    certificate: Option<&'a ClientCertificate>,
    authentication: &Authentication,
    proved: Option<impl FnOnce() -> ProvedRequest<'a>>,
) -> Result<Identity, Rejection> {
    if authentication.is_anonymous() {
        return Ok(Identity::Anonymous);
    }
    // A token says more than the certificate of the connection, which may be that of a proxy.
    match (credential(headers, authentication.takes_api_keys())?, certificate) {
        (None, Some(certificate)) => authentication.identify_by(certificate),
        (None, None) => authentication.identify(None).await,
        (Some((scheme, token)), certificate) => {
            let request = proved.filter(|_| scheme == Scheme::Dpop).map(|proved| proved());
            let credential = Credential { scheme, token, certificate, request };
            // Boxed: anonymous requests do not carry the state of fetching keys.
            Box::pin(authentication.identify(Some(&credential))).await
        }
    }
}

/// Returns the scheme of the credential of a request.
pub(crate) fn scheme(headers: &HeaderMap) -> Option<Scheme> {
    credential(headers, true).ok().flatten().map(|(scheme, _)| scheme)
}

/// Returns the headers of a request that may hold its credential.
pub(crate) fn headers_of(headers: &HeaderMap) -> HeaderMap {
    let names = [AUTHORIZATION, API_KEY];
    let held =
        names.iter().flat_map(|name| headers.get_all(name).iter().map(|value| (name.clone(), value.clone())));
    held.collect()
}

/// Returns the credential of a request. Never read from the URL, which logs and histories keep.
fn credential(headers: &HeaderMap, takes_api_keys: bool) -> Result<Option<(Scheme, &str)>, Rejection> {
    let single = |name: &HeaderName| {
        let mut values = headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (None, _) => Ok(None),
            (Some(value), None) => value.to_str().map(Some).map_err(|_| Rejection::Malformed),
            _ => Err(Rejection::Malformed),
        }
    };
    if let Some(value) = single(&AUTHORIZATION)? {
        // Other schemes are not taken.
        let scheme = |name: &str| {
            [("bearer", Scheme::Bearer), ("dpop", Scheme::Dpop)]
                .into_iter()
                .find_map(|(known, scheme)| name.eq_ignore_ascii_case(known).then_some(scheme))
        };
        let sent = value.split_once(' ').and_then(|(name, token)| Some((scheme(name)?, token.trim())));
        return Ok(sent);
    }
    let key = if takes_api_keys { single(&API_KEY)? } else { None };
    Ok(key.map(|key| (Scheme::ApiKey, key)))
}

/// Returns the URLs at which clients reach the path of a request, without its query. `public` is the URL of
/// `/mcp`, which a proxy in front may serve at another path; or that of the host.
fn urls_of(public: &Url, uri: &Uri) -> Vec<Url> {
    let path = uri.path();
    let base = public.path().trim_end_matches('/');
    let below = path.strip_prefix(PATH).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let at_proxy = match below {
        Some(rest) => format!("{base}{rest}"),
        None => format!("{}{path}", base.strip_suffix(PATH).unwrap_or(base)),
    };
    let with_path = |path: &str| {
        let mut url = public.clone();
        url.set_query(None);
        url.set_fragment(None);
        url.set_path(path);
        url
    };
    let mut urls = vec![with_path(&at_proxy), with_path(path)];
    urls.dedup();
    urls
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&'static str, &'static str)]) -> HeaderMap {
        let entry = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), value.parse().unwrap())
        };
        list.iter().map(entry).collect()
    }

    #[test]
    fn a_credential_is_a_token_or_a_key() {
        for (list, expected) in [
            (&[][..], Ok(None)),
            (&[("authorization", "Bearer a.b.c")], Ok(Some((Scheme::Bearer, "a.b.c")))),
            (&[("authorization", "bearer  a")], Ok(Some((Scheme::Bearer, "a")))),
            (&[("authorization", "DPoP a.b.c")], Ok(Some((Scheme::Dpop, "a.b.c")))),
            (&[("authorization", "Basic dTpw")], Ok(None)),
            (&[("x-api-key", "key")], Ok(Some((Scheme::ApiKey, "key")))),
            (&[("authorization", "Bearer a"), ("x-api-key", "key")], Ok(Some((Scheme::Bearer, "a")))),
            (&[("authorization", "Bearer a"), ("authorization", "DPoP b")], Err(Rejection::Malformed)),
            (&[("x-api-key", "a"), ("x-api-key", "b")], Err(Rejection::Malformed)),
        ] {
            let headers = headers(list);
            assert_eq!(credential(&headers, true), expected, "{list:?}");
        }
        assert_eq!(credential(&headers(&[("x-api-key", "key")]), false), Ok(None));
    }

    #[test]
    fn the_url_of_a_request_is_the_configured_one_whatever_its_host_says() {
        let urls = |public: &str, uri: &str| -> Vec<String> {
            let urls = urls_of(&public.parse().unwrap(), &uri.parse().unwrap());
            urls.into_iter().map(String::from).collect()
        };
        let host = "https://tools.example.com";
        assert_eq!(urls(&format!("{host}/mcp"), "http://evil.example/mcp?a=b"), [format!("{host}/mcp")]);
        assert_eq!(urls(&format!("{host}/mcp/"), "/mcp/dev"), [format!("{host}/mcp/dev")]);
        assert_eq!(urls(&format!("{host}/mcp"), "/tools"), [format!("{host}/tools")]);
        assert_eq!(urls(&format!("{host}/team"), "/mcp/"), [format!("{host}/team/"), format!("{host}/mcp/")]);
        let of_team = [format!("{host}/team/tools"), format!("{host}/tools")];
        assert_eq!(urls(&format!("{host}/team/mcp"), "/tools"), of_team);
        assert_eq!(urls(host, "/mcp"), [format!("{host}/"), format!("{host}/mcp")]);
    }
}
