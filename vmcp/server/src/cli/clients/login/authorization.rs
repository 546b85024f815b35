//! OAuth as the MCP specification wants it: the server's metadata (RFC 9728, RFC 8414), a client registered
//! on the spot (RFC 7591), the authorization code with PKCE to a loopback address, or a device code (RFC
//! 8628).

use std::time::Duration;

use http::header::{ACCEPT, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use reqwest::redirect::Policy;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationMetadataResolution,
    InMemoryStateStore, OAuthClientConfig, ProtectedResourceMetadataInvalidReason, StateStore as _,
    StoredAuthorizationState,
};
use serde_json::{Value, json};
use url::Url;
use vmcp_access::outgoing::logins::{CodeGrant, Login, guarded_client};
use vmcp_config::addresses::ReachableAddresses;
use vmcp_config::{OAuthClient, Secret};
use vmcp_egress::Proxies;
use vmcp_error_chain::error_chain;

use super::callback::{Callback, CallbackListener};
use super::device::{self, DeviceLogin, Endpoints};
use super::oauth_client::{CLIENT_NAME, not_signed_in, origin, resource};
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes;

/// Revision of requests without a token.
const REVISION: &str = "2025-11-25";
const SESSION: &str = "mcp-session-id";
/// Time for the server's answer to a request without a token.
const PROBE_TIMEOUT: Duration = Duration::from_secs(30);

/// A login to make.
pub(super) struct Plan {
    /// URL of the backend.
    pub(super) url: Url,
    /// Addresses that the hosts of the server and of its authorization server may have.
    pub(super) addresses: ReachableAddresses,
    /// The client that is configured, if it is.
    pub(super) client: OAuthClient,
    /// Scopes to ask for besides the scopes of the server or the configuration.
    pub(super) more_scopes: Vec<String>,
    /// Loopback port; 0: any.
    pub(super) port: u16,
    /// Time to sign in.
    pub(super) timeout: Duration,
    pub(super) way: SignInRoute,
}

/// Route by which a person reaches the page that signs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignInRoute {
    /// A browser that vmcp opens; without a display a device code where the server offers it.
    Browser,
    /// An address to open by hand.
    PrintedAddress,
    /// A device code, and nothing else.
    Device,
}

/// Signs in; returns the tokens.
pub(super) async fn run(plan: Plan) -> Result<Login, CommandFailure> {
    let Plan { url, addresses, client, more_scopes, port, timeout, way } = plan;
    let challenge = challenge(&url, addresses).await?;
    let (mut manager, found) = discovered(&url, challenge.text.as_deref(), addresses).await?;
    // Without metadata the endpoints have their default paths (2025-03-26), if there are any.
    let is_told = found.source.is_discovered();
    let nowhere = || {
        CommandFailure::new(format!("{} does not say where to sign in", origin(&url)))
            .remedy("it may want no credentials, or a key: `headers` of the backend hold that")
    };
    if !is_told && !challenge.is_unauthorized {
        return Err(nowhere());
    }
    let token_url: Url = found.metadata.token_endpoint.parse()?;
    let secret_in_body = takes_secret_in_body(&found.metadata);
    let by_device = way == SignInRoute::Device || (way == SignInRoute::Browser && !has_display());
    let endpoints = if by_device { Endpoints::from_metadata(&found.metadata, &url)? } else { None };
    manager.set_metadata(found.metadata);
    let scopes = if client.scopes.is_empty() {
        manager.select_initial_scopes(&[]).await
    } else {
        client.scopes.clone()
    };
    let more: Vec<_> = more_scopes.into_iter().filter(|scope| !scopes.contains(scope)).collect();
    let scopes: Vec<&str> = scopes.iter().chain(&more).map(String::as_str).collect();
    if let Some(endpoints) = endpoints {
        match DeviceLogin::begin(endpoints, &client, &scopes, (&url, addresses), &mut manager).await {
            Ok(login) => return login.wait(timeout).await,
            // Offered, but not to vmcp.
            Err(failure) if way == SignInRoute::Browser => {
                notes::note(&format!("no device code: {}", failure.message()));
            }
            Err(failure) => return Err(failure),
        }
    } else if way == SignInRoute::Device {
        return Err(CommandFailure::new(format!("{} offers no device codes", origin(&url)))
            .remedy("sign in without --device; --no-browser prints an address to open elsewhere"));
    }
    let listener = CallbackListener::bind(port).await?;
    let registered = registered(&mut manager, &client, listener.url(), &scopes).await;
    let registered = if is_told { registered? } else { registered.map_err(|_| nowhere())? };
    let states = InMemoryStateStore::new();
    manager.set_state_store(states.clone());
    let address = manager.get_authorization_url(&scopes).await.map_err(failed)?;
    let resource = resource(&address).unwrap_or_else(|| url.to_string());
    show(&address, way == SignInRoute::Browser);
    let listener_url = listener.url().to_owned();
    let Callback { code, state, issuer } = listener.wait(timeout).await?;
    let state = states.load(&state).await.map_err(failed)?;
    let state = state.ok_or_else(|| CommandFailure::new("the browser came back from another sign-in"))?;
    check_issuer(&state, issuer.as_deref())?;
    let grant = CodeGrant {
        token_url: device::endpoint_of(&token_url, &url)?,
        client_id: registered.client_id,
        client_secret: registered.client_secret,
        secret_in_body,
        code,
        verifier: state.pkce_verifier,
        redirect: listener_url,
        resource,
        addresses,
    };
    Login::exchange(grant).await.map_err(not_signed_in)
}

/// Finds the authorization server. The person has chosen this server: its authorization server may be at a
/// private address, but neither a link-local one nor, unless the server itself is, a loopback one. A resource
/// that calls itself by its URL with a slash at its end, or without, is the same. A server that a client
/// added may name public addresses alone.
async fn discovered(
    url: &Url,
    challenge: Option<&str>,
    addresses: ReachableAddresses,
) -> Result<(AuthorizationManager, AuthorizationMetadataResolution), CommandFailure> {
    let mut named = url.clone();
    loop {
        let manager = match addresses {
            ReachableAddresses::Public => AuthorizationManager::new(named.clone()).await,
            ReachableAddresses::Local | ReachableAddresses::Any => {
                AuthorizationManager::new_allowing_private_addresses(named.clone()).await
            }
        };
        let manager = manager.map_err(failed)?;
        match manager.resolve_metadata_from_challenge(challenge).await {
            Ok(found) => return Ok((manager, found)),
            Err(error) => match other_name(url, &error) {
                // Once: a server might name the other one at either.
                Some(other) if named == *url => named = other,
                _ => return Err(failed(error)),
            },
        }
    }
}

/// Returns the URL that a resource names as its own, if it differs from `url` by a slash at the end alone.
fn other_name(url: &Url, error: &AuthError) -> Option<Url> {
    let AuthError::ProtectedResourceMetadataInvalid { reason, .. } = error else { return None };
    let ProtectedResourceMetadataInvalidReason::ResourceMismatch { permitted, .. } = &**reason else {
        return None;
    };
    let plain = |url: &Url| url.path().trim_end_matches('/').to_owned();
    (url.origin() == permitted.origin() && plain(url) == plain(permitted)).then(|| permitted.clone())
}

/// True if the token endpoint takes a client's secret in the body, and not as HTTP Basic.
fn takes_secret_in_body(metadata: &AuthorizationMetadata) -> bool {
    let methods = metadata.additional_fields.get("token_endpoint_auth_methods_supported");
    let methods = methods.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let takes = |method: &str| methods.iter().any(|other| other == method);
    takes("client_secret_post") && !takes("client_secret_basic")
}

/// Refuses a code of another authorization server (RFC 9207, mix-up attack).
fn check_issuer(state: &StoredAuthorizationState, received: Option<&str>) -> Result<(), CommandFailure> {
    let Some(expected) = &state.expected_issuer else {
        return match received {
            Some(received) => Err(CommandFailure::new(format!(
                "cannot sign in: the answer is of {received}, and the server's metadata names no issuer"
            ))),
            None => Ok(()),
        };
    };
    match received {
        Some(received) if received != expected => Err(CommandFailure::new(format!(
            "cannot sign in: the answer is of {received}, and {expected} was asked"
        ))),
        None if state.require_issuer => Err(CommandFailure::new(format!(
            "cannot sign in: the answer does not say that it is of {expected}"
        ))),
        _ => Ok(()),
    }
}

/// The answer of a server to requests without a token.
struct Challenge {
    /// Its challenges, if it gives any.
    text: Option<String>,
    /// True if it answered with HTTP 401.
    is_unauthorized: bool,
}

/// Returns the challenge by which the server answers a request without a token; it may say where metadata is,
/// and which scopes are wanted. Some servers let clients begin, and challenge their first list.
async fn challenge(url: &Url, addresses: ReachableAddresses) -> Result<Challenge, CommandFailure> {
    let http = match addresses {
        ReachableAddresses::Any => {
            let http = reqwest::Client::builder().redirect(Policy::none());
            http.proxy(Proxies::of_environment().for_reqwest()).build()?
        }
        narrower => guarded_client(&[url], narrower).await.map_err(not_signed_in)?,
    };
    let begin = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": REVISION, "capabilities": {},
            "clientInfo": {"name": CLIENT_NAME, "version": env!("CARGO_PKG_VERSION")},
        },
    });
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}});
    let mut session: Option<HeaderValue> = None;
    let mut is_unauthorized = false;
    for (request, begins) in [(begin, true), (list, false)] {
        let mut ask = http.post(url.clone()).timeout(PROBE_TIMEOUT).json(&request);
        ask = ask.header(ACCEPT, "application/json, text/event-stream");
        if !begins {
            ask = ask.header("mcp-protocol-version", REVISION);
        }
        if let Some(session) = &session {
            ask = ask.header(SESSION, session);
        }
        let answer = ask.send().await.map_err(|error| {
            let reason = error_chain(&error.without_url());
            CommandFailure::new(format!("{} does not answer: {reason}", origin(url))).exit(Exit::Unreachable)
        })?;
        let challenges = answer.headers().get_all(WWW_AUTHENTICATE).iter();
        let challenges: Vec<_> = challenges.filter_map(|challenge| challenge.to_str().ok()).collect();
        if !challenges.is_empty() {
            let text = Some(challenges.join(", "));
            return Ok(Challenge { text, is_unauthorized: true });
        }
        is_unauthorized |= answer.status() == StatusCode::UNAUTHORIZED;
        session = answer.headers().get(SESSION).cloned();
    }
    Ok(Challenge { text: None, is_unauthorized })
}

/// Returns the configured client, or registers one.
async fn registered(
    manager: &mut AuthorizationManager,
    client: &OAuthClient,
    redirect: &str,
    scopes: &[&str],
) -> Result<OAuthClientConfig, CommandFailure> {
    let Some(id) = &client.client_id else {
        return manager.register_client(CLIENT_NAME, redirect, scopes).await.map_err(|error| {
            failed(error).remedy(
                "register a client at the server by hand, and name it: `type: oauth, oauth: { clientId: … }` in `outgoingAuth`",
            )
        });
    };
    let mut config = OAuthClientConfig::new(id, redirect);
    if let Some(secret) = &client.client_secret {
        config = config.with_client_secret(Secret::expose(secret));
    }
    manager.configure_client(config.clone()).map_err(failed)?;
    Ok(config)
}

fn show(address: &str, open_browser: bool) {
    let opened = open_browser && has_display() && open::that_detached(address).is_ok();
    let what = if opened { "a browser opens; if it does not, open" } else { "open" };
    notes::note(&format!("{what} this address to sign in:\n\n  {address}\n"));
    notes::note("then come back here; or paste the address at which the browser ends:");
}

/// True if a browser has somewhere to appear: over ssh it would take the terminal.
pub(in crate::cli) fn has_display() -> bool {
    !cfg!(target_os = "linux")
        || ["DISPLAY", "WAYLAND_DISPLAY"]
            .iter()
            .any(|name| std::env::var_os(name).is_some_and(|v| !v.is_empty()))
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` takes it")]
fn failed(error: AuthError) -> CommandFailure {
    let exit = if matches!(error, AuthError::DiscoveryRequestFailed { .. } | AuthError::HttpError(_)) {
        Exit::Unreachable
    } else {
        Exit::Failed
    };
    CommandFailure::new(format!("cannot sign in: {}", error_chain(&error))).exit(exit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_the_same_with_a_slash_at_its_end_and_no_other_is() {
        let url: Url = "https://notes.example/mcp".parse().unwrap();
        let other = |permitted: &str| {
            let permitted = permitted.parse().unwrap();
            let reason = ProtectedResourceMetadataInvalidReason::ResourceMismatch {
                reference: url.clone(),
                permitted,
            };
            let reason = Box::new(reason);
            other_name(&url, &AuthError::ProtectedResourceMetadataInvalid { url: url.clone(), reason })
        };
        assert_eq!(other("https://notes.example/mcp/").unwrap().path(), "/mcp/");
        for foreign in
            ["https://evil.example/mcp/", "https://notes.example/mcp/other", "http://notes.example/mcp/"]
        {
            assert_eq!(other(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn a_code_of_another_authorization_server_is_refused() {
        let state = |issuer: Option<&str>, is_required: bool| -> StoredAuthorizationState {
            let state = json!({
                "pkce_verifier": "v", "csrf_token": "s", "expected_issuer": issuer,
                "require_issuer": is_required, "created_at": 0,
            });
            serde_json::from_value(state).unwrap()
        };
        let known = Some("https://login.example");
        assert!(check_issuer(&state(known, true), known).is_ok());
        assert!(check_issuer(&state(known, false), None).is_ok());
        assert!(check_issuer(&state(None, false), None).is_ok());
        assert!(check_issuer(&state(None, false), Some("https://other.example")).is_err());
        assert!(check_issuer(&state(known, true), None).is_err());
        assert!(check_issuer(&state(known, false), Some("https://other.example")).is_err());
    }
}
