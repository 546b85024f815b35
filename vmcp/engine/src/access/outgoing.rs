//! Credentials of clients at backends: binds the tokens of `vmcp-access` and passed-on headers to the seam of
//! `vmcp-backend`.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::HeaderName;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use sha2::{Digest as _, Sha256};
use vmcp_access::api_keys;
use vmcp_access::identity::upstream_tokens::LatestTokens;
use vmcp_access::outgoing::{BackendTokens, HttpClient, OutgoingError, OutgoingRequest, Subject};
use vmcp_backend::{CredentialError, CredentialSource, SharedCredentials, UnprovedRequest};

use super::identity::{Identity, Principal};
use crate::folders;

/// The scheme of access tokens in `Authorization`.
const BEARER: &str = "Bearer ";

/// Makes the tokens of backends; all of them share one HTTP client.
#[derive(Clone, Debug, Default)]
pub(crate) struct TokenFactory {
    http: HttpClient,
    /// The tokens of who signed in last through vmcp, for listings.
    latest: LatestTokens,
}

impl TokenFactory {
    /// Makes tokens; backends that list for nobody else are listed with `latest`.
    pub(crate) fn new(latest: LatestTokens) -> Self {
        Self { http: HttpClient::default(), latest }
    }

    /// Returns the tokens of a backend; `None` if it gets none.
    pub(crate) fn tokens(&self, spec: &vmcp_config::Backend) -> Option<Arc<BackendTokens>> {
        let tokens = BackendTokens::new(&spec.name, &spec.credentials, self.http.clone(), logins_folder());
        tokens.map(|tokens| Arc::new(tokens.listing_with(self.latest.clone())))
    }
}

/// Returns the folder of logins: that of stored secrets.
pub fn logins_folder() -> Option<PathBuf> {
    folders::config_dir()
}

/// Credentials of vmcp's own requests.
pub(crate) fn of_vmcp(tokens: &Arc<BackendTokens>) -> SharedCredentials {
    Arc::new(Proof { tokens: Some(Arc::clone(tokens)), client: None, forwarded: HeaderMap::new() })
}

/// A client at one backend: the owner of its connections there, and its credentials. `None`: the backend
/// gets the same for all.
pub struct ClientAtBackend {
    /// Owner of the client's connections there.
    pub principal: vmcp_backend::Principal,
    /// Credentials of the client; `None`: the backend gets the same for all.
    pub credentials: Option<SharedCredentials>,
}

impl ClientAtBackend {
    /// `forwarded` are the headers of the client's request that some backend gets.
    pub fn new(
        principal: &Principal,
        forwarded: Option<&Arc<HeaderMap>>,
        spec: &vmcp_config::Backend,
        tokens: Option<&Arc<BackendTokens>>,
    ) -> Self {
        if !spec.tells_clients_apart() {
            return Self { principal: principal.at_backends(), credentials: None };
        }
        if principal.operator.is_some() {
            // Neither a kept token of the client nor another one stands for it.
            return Self { principal: principal.at_backends(), credentials: Some(Arc::new(NotTheOperators)) };
        }
        let forwarded = forwarded
            .map(|headers| allowed(headers, &spec.passthrough_headers, &principal.identity))
            .unwrap_or_default();
        let at_backend = if forwarded.is_empty() {
            principal.at_backends()
        } else {
            vmcp_backend::Principal::Identity(digest(principal, &forwarded))
        };
        let (tokens, client) = (tokens.cloned(), Some(principal.identity.clone()));
        let credentials: SharedCredentials = Arc::new(Proof { tokens, client, forwarded });
        Self { principal: at_backend, credentials: Some(credentials) }
    }
}

/// Returns the headers of a client's request that backends may get. The `Authorization` of a client of
/// `incomingAuth.apiKeys` is a key of this server, and none of them.
pub fn allowed(headers: &HeaderMap, names: &BTreeSet<String>, identity: &Identity) -> HeaderMap {
    let has_key = identity.as_known().is_some_and(|known| known.issuer() == api_keys::ISSUER);
    let may_go = |name: &HeaderName| names.contains(name.as_str()) && !(has_key && *name == AUTHORIZATION);
    let mut forwarded = HeaderMap::new();
    for (name, value) in headers.iter().filter(|(name, _)| may_go(name)) {
        forwarded.append(name, value.clone());
    }
    forwarded
}

/// Two clients with the same address are different ones if the headers that prove their rights differ.
fn digest(principal: &Principal, forwarded: &HeaderMap) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(principal.identity.digest());
    hash.update(principal.address.map(|address| address.to_string()).unwrap_or_default());
    let mut headers: Vec<_> =
        forwarded.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    headers.sort_unstable();
    for (name, value) in headers {
        for part in [name.as_bytes(), value] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
    hash.finalize().into()
}

/// Credentials of one subject at one backend.
struct Proof {
    tokens: Option<Arc<BackendTokens>>,
    /// `None`: vmcp itself.
    client: Option<Identity>,
    forwarded: HeaderMap,
}

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proof").field("client", &self.client).finish_non_exhaustive()
    }
}

impl CredentialSource for Proof {
    fn headers<'a>(
        &'a self,
        request: UnprovedRequest<'a>,
        refused: Option<&'a HeaderMap>,
    ) -> BoxFuture<'a, Result<HeaderMap, CredentialError>> {
        async move {
            let mut headers = self.forwarded.clone();
            let Some(tokens) = &self.tokens else { return Ok(headers) };
            let subject = self.client.as_ref().map_or(Subject::Vmcp, Subject::Client);
            if tokens.is_signer() {
                // Another signature by the same keys is refused too.
                if let Some(refused) = refused {
                    return Ok(refused.clone());
                }
                let UnprovedRequest { method, url, headers: with, body } = request;
                let request = OutgoingRequest { method: method.as_str(), url, headers: with, body };
                let signed = tokens.signature(subject, &request).await.map_err(refusal)?;
                headers.extend(signed.unwrap_or_default());
                return Ok(headers);
            }
            let refused = refused.and_then(|headers| headers.get(AUTHORIZATION)?.to_str().ok());
            let refused = refused.and_then(|refused| refused.strip_prefix(BEARER));
            let token = tokens.token(subject, refused).await.map_err(refusal)?;
            if let Some(token) = token {
                let value = HeaderValue::try_from(format!("{BEARER}{}", token.expose()));
                let mut value = value.map_err(|_| CredentialError {
                    reason: "the identity provider gave a token that cannot be sent".to_owned(),
                    detail: String::new(),
                })?;
                value.set_sensitive(true);
                headers.insert(AUTHORIZATION, value);
            }
            Ok(headers)
        }
        .boxed()
    }
}

/// Credentials of an operator who calls as a client: none, where each client has its own.
#[derive(Debug)]
struct NotTheOperators;

impl CredentialSource for NotTheOperators {
    fn headers<'a>(
        &'a self,
        _: UnprovedRequest<'a>,
        _: Option<&'a HeaderMap>,
    ) -> BoxFuture<'a, Result<HeaderMap, CredentialError>> {
        let reason = "this server is called with credentials of each client, and an operator has none of \
                      theirs: the client itself makes the call";
        let refusal = CredentialError { reason: reason.to_owned(), detail: String::new() };
        std::future::ready(Err(refusal)).boxed()
    }
}

fn refusal(error: OutgoingError) -> CredentialError {
    CredentialError { reason: error.reason, detail: error.detail }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::config;

    fn headers(token: &'static str) -> Arc<HeaderMap> {
        let all = [("authorization", token), ("cookie", "c"), ("x-other", "o")];
        let header = |(name, value): (&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        Arc::new(all.into_iter().map(header).collect())
    }

    #[tokio::test]
    async fn a_backend_gets_the_listed_headers_of_the_client_and_no_other_backend_does() {
        let config = config(
            "backends: [{ name: a, url: 'https://a.example/mcp' }, { name: b, url: 'https://b.example/mcp' }]
outgoingAuth: { backends: { a: { type: passthrough, passthrough: { headers: [Authorization] } } } }",
        );
        let at = |token: &'static str, index: usize| {
            let client = Principal::at("10.0.0.1");
            ClientAtBackend::new(&client, Some(&headers(token)), &config.backends[index], None)
        };
        let (alice, bob) = (at("Bearer a", 0), at("Bearer b", 0));
        let request = UnprovedRequest {
            method: &http::Method::POST,
            url: &"https://a.example/mcp".parse().unwrap(),
            headers: &HeaderMap::new(),
            body: &bytes::Bytes::new(),
        };
        let sent = alice.credentials.unwrap().headers(request, None).await.unwrap();
        assert_eq!(sent, HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Bearer a"))]));
        assert_ne!(alice.principal, bob.principal, "the same address, but two people");
        assert_eq!(alice.principal, at("Bearer a", 0).principal);
        let other = at("Bearer a", 1);
        assert!(other.credentials.is_none() && other.principal == at("Bearer b", 1).principal);
    }

    #[tokio::test]
    async fn an_operator_who_calls_as_a_client_has_neither_its_credentials_nor_its_connections() {
        let config = config(
            "backends: [{ name: a, url: 'https://a.example/mcp' }, { name: b, url: 'https://b.example/mcp' }]
outgoingAuth: { backends: { a: { type: passthrough, passthrough: { headers: [Authorization] } } } }",
        );
        let alice = Principal::from(Identity::known("https://idp", "alice", serde_json::Map::new(), None));
        let operator = Principal { operator: Some("admin token 12".into()), ..alice.clone() };
        assert_ne!(operator.key(), alice.key());
        assert_ne!(operator.binding(), alice.binding());
        let at = |client: &Principal, index: usize| {
            ClientAtBackend::new(client, Some(&headers("Bearer a")), &config.backends[index], None)
        };
        let request = UnprovedRequest {
            method: &http::Method::POST,
            url: &"https://a.example/mcp".parse().unwrap(),
            headers: &HeaderMap::new(),
            body: &bytes::Bytes::new(),
        };
        let refused = at(&operator, 0).credentials.unwrap().headers(request, None).await.unwrap_err();
        assert!(refused.reason.contains("credentials of each client"), "{refused}");
        let shared = at(&operator, 1);
        assert!(shared.credentials.is_none(), "the server's own credentials serve all");
        assert_ne!(shared.principal, at(&alice, 1).principal);
    }

    #[test]
    fn a_key_of_this_server_goes_to_no_backend() {
        let names = BTreeSet::from(["authorization".to_owned(), "x-other".to_owned()]);
        let known = |issuer| Identity::known(issuer, "ci", serde_json::Map::new(), None);
        let with_key = allowed(&headers("Bearer key"), &names, &known(api_keys::ISSUER));
        assert_eq!(
            with_key,
            HeaderMap::from_iter([(HeaderName::from_static("x-other"), HeaderValue::from_static("o"))])
        );
        let of_other = allowed(&headers("Bearer token"), &names, &known("https://idp.example"));
        assert_eq!(of_other.len(), 2);
    }
}
