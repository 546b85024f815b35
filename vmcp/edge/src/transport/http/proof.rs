//! The credential of a request: a token, a key or a certificate.

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};
use vmcp_access::authentication::Authentication;
use vmcp_access::client_certificate::ClientCertificate;
use vmcp_access::rejection::Rejection;

use vmcp_engine::access::identity::Identity;

/// Header of a key, besides `Authorization`.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Returns the identity that a request proves.
pub(crate) async fn identify(
    headers: &HeaderMap,
    certificate: Option<&ClientCertificate>,
    authentication: &Authentication,
) -> Result<Identity, Rejection> {
    if authentication.is_anonymous() {
        return Ok(Identity::Anonymous);
    }
    // A token says more than the certificate of the connection, which may be that of a proxy.
    match (credential(headers, authentication.takes_api_keys()), certificate) {
        (Ok(None), Some(certificate)) => authentication.identify_by(certificate),
        // Boxed: anonymous requests do not carry the state of fetching keys.
        (Ok(credential), _) => Box::pin(authentication.identify(credential)).await,
        (Err(rejection), _) => Err(rejection),
    }
}

/// Returns the headers of a request that may hold its credential.
pub(crate) fn headers_of(headers: &HeaderMap) -> HeaderMap {
    let names = [AUTHORIZATION, API_KEY];
    let held =
        names.iter().flat_map(|name| headers.get_all(name).iter().map(|value| (name.clone(), value.clone())));
    held.collect()
}

/// Returns the credential of a request. Never read from the URL, which logs and histories keep.
fn credential(headers: &HeaderMap, takes_api_keys: bool) -> Result<Option<&str>, Rejection> {
    let single = |name: &HeaderName| {
        let mut values = headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (None, _) => Ok(None),
            (Some(value), None) => value.to_str().map(Some).map_err(|_| Rejection::Malformed),
            _ => Err(Rejection::Malformed),
        }
    };
    if let Some(value) = single(&AUTHORIZATION)? {
        let bearer = value.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        // This server takes no other scheme.
        return Ok(bearer.map(|(_, token)| token.trim()));
    }
    if takes_api_keys { single(&API_KEY) } else { Ok(None) }
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
    fn a_credential_is_a_bearer_token_or_a_key() {
        for (list, expected) in [
            (&[][..], Ok(None)),
            (&[("authorization", "Bearer a.b.c")], Ok(Some("a.b.c"))),
            (&[("authorization", "bearer  a")], Ok(Some("a"))),
            (&[("authorization", "Basic dTpw")], Ok(None)),
            (&[("x-api-key", "key")], Ok(Some("key"))),
            (&[("authorization", "Bearer a"), ("x-api-key", "key")], Ok(Some("a"))),
            (&[("authorization", "Bearer a"), ("authorization", "Bearer b")], Err(Rejection::Malformed)),
            (&[("x-api-key", "a"), ("x-api-key", "b")], Err(Rejection::Malformed)),
        ] {
            let headers = headers(list);
            assert_eq!(credential(&headers, true), expected, "{list:?}");
        }
        assert_eq!(credential(&headers(&[("x-api-key", "key")]), false), Ok(None));
    }
}
