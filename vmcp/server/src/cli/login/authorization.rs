//! OAuth as the MCP specification wants it: the server's metadata (RFC 9728, RFC 8414), a client registered
//! on the spot (RFC 7591), the authorization code with PKCE to a loopback address, or a device code (RFC
//! 8628).

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderValue;
use http::header::{ACCEPT, WWW_AUTHENTICATE};
use reqwest::redirect::Policy;
use rmcp::transport::auth::{AuthError, AuthorizationManager, OAuthClientConfig};
use serde::Deserialize;
use serde_json::json;
use url::Url;
use vmcp_access::outgoing::logins::Login;
use vmcp_config::{OAuthClient, Secret};
use vmcp_egress::Proxies;
use vmcp_error_chain::error_chain;

use super::callback::{Callback, CallbackListener};
use super::device::{DeviceLogin, Endpoints};
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes;

/// Name under which the client is registered; servers show it to the person.
pub(super) const CLIENT_NAME: &str = "vmcp";
/// Revision of requests without a token.
const REVISION: &str = "2025-11-25";
const SESSION: &str = "mcp-session-id";
/// Time for the server's answer to a request without a token.
const PROBE_TIMEOUT: Duration = Duration::from_secs(30);

/// A login to make.
pub(super) struct Plan {
    /// URL of the backend.
    pub(super) url: Url,
    /// The client that is configured, if it is.
    pub(super) client: OAuthClient,
    /// Scopes to ask for besides those that the server or the configuration names.
    pub(super) more_scopes: Vec<String>,
    /// Loopback port; 0: any.
    pub(super) port: u16,
    /// Time to sign in.
    pub(super) timeout: Duration,
    pub(super) way: Way,
}

/// Way of the person to the page that signs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// A browser that vmcp opens; without a display a device code where the server offers it.
    Browser,
    /// An address to open by hand.
    PrintedAddress,
    /// A device code, and nothing else.
    Device,
}

/// The answer of the token endpoint.
#[derive(Deserialize)]
pub(super) struct TokenAnswer {
    pub(super) access_token: String,
    #[serde(default)]
    pub(super) refresh_token: Option<String>,
    #[serde(default)]
    pub(super) expires_in: Option<u64>,
}

/// Signs in; returns the tokens.
pub(super) async fn run(plan: Plan) -> Result<Login, CommandFailure> {
    let Plan { url, client, more_scopes, port, timeout, way } = plan;
    // The person has chosen this server: its authorization server may be at a private address, but neither a
    // link-local one nor, unless the server itself is, a loopback one.
    let mut manager =
        AuthorizationManager::new_allowing_private_addresses(url.clone()).await.map_err(failed)?;
    let challenge = challenge(&url).await?;
    let found = manager.resolve_metadata_from_challenge(challenge.as_deref()).await.map_err(failed)?;
    if !found.source.is_discovered() {
        return Err(CommandFailure::new(format!("{} does not say where to sign in", origin(&url)))
            .remedy("it may want no credentials, or a key: `headers` of the backend hold that"));
    }
    let token_url: Url = found.metadata.token_endpoint.parse()?;
    let by_device = way == Way::Device || (way == Way::Browser && !has_display());
    let endpoints = if by_device { Endpoints::of(&found.metadata, &url)? } else { None };
    manager.set_metadata(found.metadata);
    let scopes = if client.scopes.is_empty() {
        manager.select_initial_scopes(&[]).await
    } else {
        client.scopes.clone()
    };
    let more: Vec<_> = more_scopes.into_iter().filter(|scope| !scopes.contains(scope)).collect();
    let scopes: Vec<&str> = scopes.iter().chain(&more).map(String::as_str).collect();
    if let Some(endpoints) = endpoints {
        match DeviceLogin::begin(endpoints, &client, &scopes, &url, &mut manager).await {
            Ok(login) => return login.wait(timeout).await,
            // Offered, but not to vmcp.
            Err(failure) if way == Way::Browser => {
                notes::note(&format!("no device code: {}", failure.message()));
            }
            Err(failure) => return Err(failure),
        }
    } else if way == Way::Device {
        return Err(CommandFailure::new(format!("{} offers no device codes", origin(&url)))
            .remedy("sign in without --device; --no-browser prints an address to open elsewhere"));
    }
    let listener = CallbackListener::bind(port).await?;
    let registered = registered(&mut manager, &client, listener.url(), &scopes).await?;
    let address = manager.get_authorization_url(&scopes).await.map_err(failed)?;
    let resource = resource(&address).unwrap_or_else(|| url.to_string());
    show(&address, way == Way::Browser);
    let Callback { code, state, issuer } = listener.wait(timeout).await?;
    let exchanged = manager.exchange_code_for_token_with_issuer(&code, &state, issuer.as_deref()).await;
    let answer: TokenAnswer = serde_json::to_value(exchanged.map_err(failed)?)
        .and_then(serde_json::from_value)
        .map_err(|_| CommandFailure::new("the answer of the authorization server holds no token"))?;
    Ok(answer.into_login(token_url, registered.client_id, registered.client_secret, resource))
}

impl TokenAnswer {
    /// Returns the login to store.
    pub(super) fn into_login(
        self,
        token_url: Url,
        client_id: String,
        client_secret: Option<String>,
        resource: String,
    ) -> Login {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        Login {
            token_url,
            client_id,
            client_secret,
            resource,
            access_token: self.access_token,
            refresh_token: self.refresh_token,
            expires_at: self.expires_in.map(|seconds| now.saturating_add(seconds)),
        }
    }
}

/// Returns the challenge by which the server answers a request without a token; it may say where metadata is,
/// and which scopes are wanted. Some servers let clients begin, and challenge their first list. `None`: it
/// gives none.
async fn challenge(url: &Url) -> Result<Option<String>, CommandFailure> {
    let http = reqwest::Client::builder().redirect(Policy::none()).timeout(PROBE_TIMEOUT);
    let http = http.proxy(Proxies::of_environment().for_reqwest()).build()?;
    let begin = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": REVISION, "capabilities": {},
            "clientInfo": {"name": CLIENT_NAME, "version": env!("CARGO_PKG_VERSION")},
        },
    });
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}});
    let mut session: Option<HeaderValue> = None;
    for (request, begins) in [(begin, true), (list, false)] {
        let mut ask =
            http.post(url.clone()).header(ACCEPT, "application/json, text/event-stream").json(&request);
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
            return Ok(Some(challenges.join(", ")));
        }
        session = answer.headers().get(SESSION).cloned();
    }
    Ok(None)
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

/// The `resource` parameter of the authorization request, which renewals repeat.
pub(super) fn resource(address: &str) -> Option<String> {
    let pairs: HashMap<_, _> = Url::parse(address).ok()?.query_pairs().into_owned().collect();
    pairs.get("resource").cloned()
}

fn show(address: &str, open_browser: bool) {
    let opened = open_browser && has_display() && open::that_detached(address).is_ok();
    let what = if opened { "a browser opens; if it does not, open" } else { "open" };
    notes::note(&format!("{what} this address to sign in:\n\n  {address}\n"));
    notes::note("then come back here; or paste the address at which the browser ends:");
}

/// True if a browser has somewhere to appear: over ssh it would take the terminal.
fn has_display() -> bool {
    !cfg!(target_os = "linux")
        || ["DISPLAY", "WAYLAND_DISPLAY"]
            .iter()
            .any(|name| std::env::var_os(name).is_some_and(|v| !v.is_empty()))
}

pub(super) fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
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
