//! Metadata of the protected resource (RFC 9728): tells clients which identity provider gives tokens for this
//! server. Served without credentials, while tokens are accepted.

use http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, HOST};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderValue, Method, StatusCode};
use serde_json::json;
use url::Url;
use vmcp_access::authentication::Authentication;
use vmcp_access::oidc::possession::dpop_proof;
use vmcp_config::TokenBinding;

use super::MCP_PATH;
use crate::transport::http::exchange::Response;
use crate::transport::http::respond;

/// The well-known path, alone or followed by the path of the resource.
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
/// Scope that is for clients to decide on, and says nothing about a resource.
const OFFLINE_ACCESS: &str = "offline_access";

/// Answers a request for the metadata; `None` if it asks for anything else, or no tokens are accepted.
pub(super) fn answer(head: &Parts, authentication: &Authentication) -> Option<Response> {
    let suffix = head.uri.path().strip_prefix(WELL_KNOWN)?.trim_end_matches('/');
    let config = authentication.config();
    let resource = resource(head, authentication)?;
    if !matches!(suffix, "" | MCP_PATH) && suffix != resource.path().trim_end_matches('/') {
        return None;
    }
    if !matches!(head.method, Method::GET | Method::HEAD) {
        return Some(respond::methods(StatusCode::METHOD_NOT_ALLOWED));
    }
    let mut issuers: Vec<&str> = Vec::new();
    let mut document = json!({ "resource": resource.as_str(), "bearer_methods_supported": ["header"] });
    for issuer in &config.issuers {
        if !issuers.contains(&issuer.issuer.as_str()) {
            issuers.push(&issuer.issuer);
        }
    }
    let mut scopes = scopes(authentication);
    for scope in config.tool_scopes.all() {
        if !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
    if let Some(document) = document.as_object_mut() {
        document.insert("authorization_servers".to_owned(), issuers.into());
        if !scopes.is_empty() {
            document.insert("scopes_supported".to_owned(), scopes.into());
        }
        if proves(authentication) {
            let algorithms: Vec<_> = proof_algorithms();
            document.insert("dpop_signing_alg_values_supported".to_owned(), algorithms.into());
        }
        if requires_proofs(authentication) {
            document.insert("dpop_bound_access_tokens_required".to_owned(), true.into());
        }
        if config.client_authorities.is_some() {
            document.insert("tls_client_certificate_bound_access_tokens".to_owned(), true.into());
        }
    }
    let mut response = respond::json_text(StatusCode::OK, document.to_string());
    let headers = response.headers_mut();
    // Anybody may read it; it may differ by the host that was asked.
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Some(response)
}

/// Returns the scopes that clients are told to ask for at first; the scopes of single tools are asked for
/// when they are needed.
pub(super) fn scopes(authentication: &Authentication) -> Vec<&str> {
    let mut scopes: Vec<&str> = Vec::new();
    for scope in authentication.config().issuers.iter().flat_map(|issuer| &issuer.scopes) {
        if scope != OFFLINE_ACCESS && !scopes.contains(&scope.as_str()) {
            scopes.push(scope);
        }
    }
    scopes
}

/// Returns true if tokens that are bound to a key are accepted with a proof (DPoP).
pub(super) fn proves(authentication: &Authentication) -> bool {
    authentication.public_urls().next().is_some()
}

/// Returns true if every token needs a proof.
pub(super) fn requires_proofs(authentication: &Authentication) -> bool {
    let issuers = &authentication.config().issuers;
    !issuers.is_empty() && issuers.iter().all(|issuer| issuer.required_binding == TokenBinding::Dpop)
}

/// Returns the names of the algorithms of proofs.
pub(super) fn proof_algorithms() -> Vec<String> {
    dpop_proof::algorithms().collect()
}

/// Returns the URL of the metadata, for challenges; `None` if no tokens are accepted.
pub(super) fn metadata_url(head: &Parts, authentication: &Authentication) -> Option<Url> {
    let mut url = resource(head, authentication)?;
    let path = format!("{WELL_KNOWN}{}", url.path().trim_end_matches('/'));
    url.set_path(&path);
    Some(url)
}

/// Returns true for a name or an address with or without a port: whatever else a client writes there, the
/// parser of URLs may keep as it is.
fn is_plain(host: &str) -> bool {
    host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte))
}

/// Returns the canonical URL of this server: as configured, or as the client that asks reaches it.
fn resource(head: &Parts, authentication: &Authentication) -> Option<Url> {
    let issuers = &authentication.config().issuers;
    let configured = issuers.iter().find_map(|issuer| issuer.resource.clone());
    configured.or_else(|| {
        let forwarded = head.headers.get("x-forwarded-proto").and_then(|value| value.to_str().ok());
        let scheme = if forwarded.is_some_and(|scheme| scheme == "https") { "https" } else { "http" };
        let host = head.headers.get(HOST).and_then(|host| host.to_str().ok());
        let host = head.uri.authority().map(Authority::as_str).or(host).filter(|host| is_plain(host))?;
        let url = Url::parse(&format!("{scheme}://{host}{MCP_PATH}")).ok()?;
        // A host has neither a path nor a password in it.
        (!issuers.is_empty() && url.path() == MCP_PATH && url.username().is_empty()).then_some(url)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_breaks_a_header_or_a_document_is_no_host() {
        for host in ["vmcp.example", "vmcp.example:8080", "10.0.0.7:80", "[fd00::1]:8080", "my_host"] {
            assert!(is_plain(host), "{host}");
        }
        for host in ["a\"b", "a\\b", "a,b=c", "a'b", "a b", "user@host", "a/b", "a;b", "a%22b"] {
            assert!(!is_plain(host), "{host}");
        }
    }
}
