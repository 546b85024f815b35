//! Dynamic client registration (RFC 7591) without a table: the client identifier is the registration itself,
//! sealed. A flood of registrations costs no memory.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use vmcp_config::sanitize;

use super::redirect_uri;
use crate::auth_server::oauth_error::{OAuthError, error};
use crate::auth_server::seals::{Purpose, Seals};
use crate::clock::now;

/// Most redirect URIs of a client.
const MAX_REDIRECT_URIS: usize = 8;
/// Bytes of all redirect URIs of a client: its identifier travels in URLs.
const MAX_REDIRECT_BYTES: usize = 1024;
/// Characters of a name that are kept.
const MAX_NAME_CHARS: usize = 80;
/// Characters of a client identifier that are looked at.
const MAX_ID_CHARS: usize = 4096;

/// A registered client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::auth_server) struct Client {
    #[serde(rename = "u")]
    redirect_uris: Vec<String>,
    #[serde(rename = "n", default, skip_serializing_if = "String::is_empty")]
    pub(in crate::auth_server) name: String,
}

/// The metadata of a registration request that are read; the rest is not needed.
#[derive(Deserialize)]
struct RegistrationRequest {
    #[serde(default)]
    redirect_uris: Vec<String>,
    #[serde(default)]
    client_name: Option<String>,
    #[serde(default)]
    grant_types: Option<Vec<String>>,
    #[serde(default)]
    response_types: Option<Vec<String>>,
    #[serde(default)]
    scope: Option<String>,
}

/// Registers a client; returns the answer. Clients are public: whichever way to authenticate they ask for,
/// they get `none`, as RFC 7591 (3.2.1) lets a server substitute.
pub(in crate::auth_server) fn register(
    body: &[u8],
    scopes: &[String],
    seals: &Seals,
) -> Result<Value, OAuthError> {
    let wanted: RegistrationRequest = serde_json::from_slice(body)
        .map_err(|_| error("invalid_client_metadata", "the body is no JSON object of client metadata"))?;
    let uris = &wanted.redirect_uris;
    if uris.is_empty() || uris.len() > MAX_REDIRECT_URIS {
        return Err(error("invalid_redirect_uri", "give 1 to 8 redirect_uris"));
    }
    if uris.iter().map(String::len).sum::<usize>() > MAX_REDIRECT_BYTES {
        return Err(error("invalid_redirect_uri", "the redirect_uris are longer than 1024 bytes together"));
    }
    if !uris.iter().all(|uri| redirect_uri::may_register(uri)) {
        return Err(error(
            "invalid_redirect_uri",
            "a redirect URI is https, http on a loopback address, or of the scheme of an app such as com.example.app; no fragment",
        ));
    }
    let asks_for = |list: &Option<Vec<String>>, wanted: &str| {
        list.as_ref().is_none_or(|list| list.iter().any(|entry| entry == wanted))
    };
    if !asks_for(&wanted.grant_types, "authorization_code") || !asks_for(&wanted.response_types, "code") {
        return Err(error("invalid_client_metadata", "only the authorization code flow is offered"));
    }
    // A person reads the name before a consent: nothing in it hides or turns the text behind it.
    let name = sanitize::text(&wanted.client_name.unwrap_or_default());
    let name: String = name.chars().take(MAX_NAME_CHARS).collect();
    let client = Client { redirect_uris: wanted.redirect_uris, name };
    // For as long as its key is listed: clients keep their identifier, and cannot tell that it expired.
    let id = seals.seal(Purpose::Client, &client, u64::MAX);
    let mut answer = json!({
        "client_id": id,
        "client_id_issued_at": now(),
        "redirect_uris": client.redirect_uris,
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    });
    if let Some(answer) = answer.as_object_mut() {
        if !client.name.is_empty() {
            answer.insert("client_name".to_owned(), client.name.into());
        }
        let scope = wanted.scope.unwrap_or_else(|| scopes.join(" "));
        if !scope.is_empty() {
            answer.insert("scope".to_owned(), scope.into());
        }
    }
    Ok(answer)
}

impl Client {
    /// Returns the client of an identifier.
    pub(in crate::auth_server) fn from_id(id: &str, seals: &Seals) -> Option<Client> {
        if id.len() > MAX_ID_CHARS { None } else { seals.open(Purpose::Client, id) }
    }

    /// Returns true if the client has registered this redirect URI.
    pub(in crate::auth_server) fn has(&self, redirect_uri: &str) -> bool {
        self.redirect_uris.iter().any(|registered| redirect_uri::fits(registered, redirect_uri))
    }

    /// Returns the only redirect URI, for requests that name none.
    pub(in crate::auth_server) fn only_redirect_uri(&self) -> Option<&str> {
        match self.redirect_uris.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }
}
