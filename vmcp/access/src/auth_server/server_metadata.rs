//! Metadata of the authorization server (RFC 8414).

use serde_json::{Value, json};
use vmcp_config::AuthServer;

use super::client::authorization_request::OFFLINE_ACCESS;
use super::endpoint::Endpoint;

/// Returns the document.
pub(super) fn document(config: &AuthServer) -> Value {
    let at = |endpoint: Endpoint| format!("{}{}", config.issuer, endpoint.path());
    let mut scopes: Vec<&str> = config.scopes.iter().map(String::as_str).collect();
    if !scopes.contains(&OFFLINE_ACCESS) {
        scopes.push(OFFLINE_ACCESS);
    }
    json!({
        "issuer": config.issuer,
        "authorization_endpoint": at(Endpoint::Authorize),
        "token_endpoint": at(Endpoint::Token),
        "registration_endpoint": at(Endpoint::Register),
        "jwks_uri": at(Endpoint::Keys),
        "scopes_supported": scopes,
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true,
    })
}
