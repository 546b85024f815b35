//! Device authorization grant (RFC 8628): the person enters a code in a browser on any machine, while vmcp
//! polls the token endpoint.

use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Client, Response};
use rmcp::transport::auth::{AuthorizationManager, AuthorizationMetadata, OAuthClientConfig};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::sleep;
use url::form_urlencoded::Serializer;
use url::{Host, Url};
use vmcp_access::outgoing::logins::{Login, guarded_client};
use vmcp_config::addresses::ReachableAddresses;
use vmcp_config::{OAuthClient, Secret};
use vmcp_error_chain::error_chain;

use super::oauth_client::{CLIENT_NAME, TokenAnswer, not_signed_in, origin, resource, seconds};
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes;

/// The grant's name, at the registration and at the token endpoint.
const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// Time for one answer of the authorization server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval between two polls if the server names none, and what `slow_down` adds (RFC 8628, 3.5).
const INTERVAL: Duration = Duration::from_secs(5);
/// Shortest interval between two polls, whatever the server says.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// Longest interval between two polls, whatever the server says.
const MAX_INTERVAL: Duration = Duration::from_mins(1);

const BY_HAND: &str = "register a client at the server by hand, and name it: `type: oauth, oauth: { clientId: … }` in `outgoingAuth`; or try --no-browser";

/// Endpoints of an authorization server that offers device codes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Endpoints {
    device: Url,
    token: Url,
    registration: Option<Url>,
}

impl Endpoints {
    /// Returns the endpoints that the metadata names; `None` if device codes are not offered. `server` is the
    /// URL of the backend, as the person wrote it.
    pub(super) fn from_metadata(
        metadata: &AuthorizationMetadata,
        server: &Url,
    ) -> Result<Option<Endpoints>, CommandFailure> {
        let named = metadata.additional_fields.get("device_authorization_endpoint");
        let Some(device) = named.and_then(|url| url.as_str()) else { return Ok(None) };
        let registration = metadata.registration_endpoint.as_deref();
        Ok(Some(Endpoints {
            device: endpoint(device, server)?,
            token: endpoint(&metadata.token_endpoint, server)?,
            registration: registration.map(|url| endpoint(url, server)).transpose()?,
        }))
    }
}

/// SSRF guard: what a server names must be https. Loopback addresses, and http, are for servers that are on
/// this machine themselves.
fn endpoint(text: &str, server: &Url) -> Result<Url, CommandFailure> {
    let url: Url = text.parse()?;
    if is_loopback(server) && is_loopback(&url) || url.scheme() == "https" && !is_loopback(&url) {
        return Ok(url);
    }
    Err(CommandFailure::new(format!(
        "{} names an address that vmcp does not ask: {}",
        origin(server),
        origin(&url)
    )))
}

/// Refuses a token endpoint on this machine, unless the server itself is.
pub(super) fn endpoint_of(token_url: &Url, server: &Url) -> Result<Url, CommandFailure> {
    if is_loopback(token_url) && !is_loopback(server) {
        return endpoint(token_url.as_str(), server);
    }
    Ok(token_url.clone())
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.to_canonical().is_loopback(),
        None => false,
    }
}

/// A login by device code that waits for the person.
pub(super) struct DeviceLogin {
    http: Client,
    token_url: Url,
    client: DeviceClient,
    resource: String,
    addresses: ReachableAddresses,
    code: CodeAnswer,
}

/// The client that vmcp is at the server.
#[derive(Deserialize)]
struct DeviceClient {
    client_id: String,
    #[serde(default)]
    client_secret: Option<String>,
}

/// Answer of the device authorization endpoint.
#[derive(Deserialize)]
struct CodeAnswer {
    device_code: String,
    user_code: String,
    verification_uri: String,
    #[serde(default)]
    verification_uri_complete: Option<String>,
    /// Seconds; required, and missing at some servers.
    #[serde(default, deserialize_with = "seconds")]
    expires_in: Option<u64>,
    /// Seconds between two polls.
    #[serde(default, deserialize_with = "seconds")]
    interval: Option<u64>,
}

/// Error document of an authorization server (RFC 6749, 5.2).
#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorAnswer {
    error: String,
    error_description: String,
}

impl DeviceLogin {
    /// Gets a code from the server; `server` is the backend's URL, and `addresses` may be those of the
    /// endpoints.
    pub(super) async fn begin(
        endpoints: Endpoints,
        client: &OAuthClient,
        scopes: &[&str],
        (server, addresses): (&Url, ReachableAddresses),
        manager: &mut AuthorizationManager,
    ) -> Result<DeviceLogin, CommandFailure> {
        let urls = [Some(&endpoints.device), Some(&endpoints.token), endpoints.registration.as_ref()];
        let urls: Vec<&Url> = urls.into_iter().flatten().collect();
        let http = guarded_client(&urls, addresses).await.map_err(not_signed_in)?;
        let client = registered(&http, endpoints.registration.as_ref(), client).await?;
        let named = resource_of(manager, &client, scopes).await;
        let resource = named.unwrap_or_else(|| server.to_string());
        let scope = scopes.join(" ");
        let mut form = client.form(&resource);
        form.extend((!scope.is_empty()).then_some(("scope", &*scope)));
        let answer = send(&http, &endpoints.device, &form).await?;
        let code = answer.map_err(|error| refused(&error))?;
        Ok(DeviceLogin { http, token_url: endpoints.token, client, resource, addresses, code })
    }

    /// Shows the code and waits until the person has entered it.
    pub(super) async fn wait(self, timeout: Duration) -> Result<Login, CommandFailure> {
        show(&self.code);
        let life = self.code.expires_in.map_or(timeout, |life| timeout.min(Duration::from_secs(life)));
        let answer = tokio::time::timeout(life, self.poll()).await.map_err(|_| {
            CommandFailure::new("nobody signed in in time").remedy("run it again; --timeout allows more")
        })??;
        let DeviceClient { client_id, client_secret } = self.client;
        Ok(answer.into_login(self.token_url, client_id, client_secret, self.resource, self.addresses))
    }

    /// Asks the token endpoint until the person has agreed or refused.
    async fn poll(&self) -> Result<TokenAnswer, CommandFailure> {
        let mut form = self.client.form(&self.resource);
        form.extend([("grant_type", GRANT), ("device_code", &*self.code.device_code)]);
        let interval = self.code.interval.map_or(INTERVAL, Duration::from_secs);
        let mut interval = interval.clamp(MIN_INTERVAL, MAX_INTERVAL);
        loop {
            sleep(interval).await;
            match send(&self.http, &self.token_url, &form).await? {
                Ok(token) => return Ok(token),
                Err(error) => interval = next_interval(&error, interval)?,
            }
        }
    }
}

impl DeviceClient {
    /// The parameters that all requests have in common.
    fn form<'a>(&'a self, resource: &'a str) -> Vec<(&'static str, &'a str)> {
        let mut form = vec![("client_id", &*self.client_id), ("resource", resource)];
        form.extend(self.client_secret.as_deref().map(|secret| ("client_secret", secret)));
        form
    }
}

/// Returns the configured client, or registers a client without a redirect address.
async fn registered(
    http: &Client,
    registration: Option<&Url>,
    client: &OAuthClient,
) -> Result<DeviceClient, CommandFailure> {
    if let Some(id) = &client.client_id {
        let secret = client.client_secret.as_ref().map(|secret| Secret::expose(secret).to_owned());
        return Ok(DeviceClient { client_id: id.clone(), client_secret: secret });
    }
    let Some(url) = registration else {
        return Err(CommandFailure::new("the server does not register clients by itself").remedy(BY_HAND));
    };
    let request = json!({
        "client_name": CLIENT_NAME, "grant_types": [GRANT, "refresh_token"], "response_types": [],
        "redirect_uris": [], "token_endpoint_auth_method": "none", "application_type": "native",
    });
    let answer = http.post(url.clone()).timeout(REQUEST_TIMEOUT).json(&request).send().await;
    understood(answer).await?.map_err(|error| refused(&error).remedy(BY_HAND))
}

/// Returns the `resource` parameter (RFC 8707) that the protected resource names.
async fn resource_of(
    manager: &mut AuthorizationManager,
    client: &DeviceClient,
    scopes: &[&str],
) -> Option<String> {
    // The manager tells it in the address of the other grant only; nothing is sent.
    manager.configure_client(OAuthClientConfig::new(&client.client_id, "http://127.0.0.1/callback")).ok()?;
    resource(&manager.get_authorization_url(scopes).await.ok()?)
}

async fn send<T: DeserializeOwned>(
    http: &Client,
    url: &Url,
    form: &[(&str, &str)],
) -> Result<Result<T, ErrorAnswer>, CommandFailure> {
    let body = Serializer::new(String::new()).extend_pairs(form).finish();
    let request = http.post(url.clone()).timeout(REQUEST_TIMEOUT).header(ACCEPT, "application/json");
    understood(request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(body).send().await)
        .await
}

/// Reads an answer, or the error document of a refusal.
async fn understood<T: DeserializeOwned>(
    answer: reqwest::Result<Response>,
) -> Result<Result<T, ErrorAnswer>, CommandFailure> {
    let unreachable = |error: reqwest::Error| {
        let reason = error_chain(&error.without_url());
        CommandFailure::new(format!("the authorization server does not answer: {reason}"))
            .exit(Exit::Unreachable)
    };
    let answer = answer.map_err(unreachable)?;
    let is_success = answer.status().is_success();
    let body = answer.bytes().await.map_err(unreachable)?;
    if !is_success {
        return Ok(Err(serde_json::from_slice(&body).unwrap_or_default()));
    }
    // The parser's own words could quote a token.
    serde_json::from_slice(&body)
        .map(Ok)
        .map_err(|_| CommandFailure::new("the answer of the authorization server cannot be read"))
}

/// Returns the interval before the next poll, if polling goes on after an error.
fn next_interval(error: &ErrorAnswer, interval: Duration) -> Result<Duration, CommandFailure> {
    match &*error.error {
        "authorization_pending" => Ok(interval),
        "slow_down" => Ok((interval + INTERVAL).min(MAX_INTERVAL)),
        "expired_token" => {
            Err(CommandFailure::new("the code expired before somebody entered it").remedy("run it again"))
        }
        "access_denied" => Err(CommandFailure::new("the person refused")),
        _ => Err(refused(error)),
    }
}

fn refused(error: &ErrorAnswer) -> CommandFailure {
    let printable = |text: &str| text.chars().filter(|c| !c.is_control()).take(200).collect::<String>();
    let (code, words) = (printable(&error.error), printable(&error.error_description));
    let code = if code.is_empty() { "no reason".to_owned() } else { code };
    let separator = if words.is_empty() { "" } else { ": " };
    CommandFailure::new(format!("the server refused: {code}{separator}{words}"))
}

fn show(code: &CodeAnswer) {
    let printable = |text: &str| text.chars().filter(|c| !c.is_control()).collect::<String>();
    let (address, user_code) = (printable(&code.verification_uri), printable(&code.user_code));
    notes::note(&format!(
        "open this address in any browser:\n\n  {address}\n\nand enter the code {user_code}"
    ));
    if let Some(complete) = &code.verification_uri_complete {
        notes::note(&format!("or open it with the code:\n\n  {}\n", printable(complete)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: &str) -> ErrorAnswer {
        ErrorAnswer { error: code.to_owned(), error_description: "why\n".to_owned() }
    }

    #[test]
    fn polling_goes_on_while_the_person_is_busy() {
        let next = |code: &str, seconds| {
            let next = next_interval(&error(code), Duration::from_secs(seconds));
            next.map(|next| next.as_secs()).map_err(|failure| failure.message().to_owned())
        };
        assert_eq!(next("authorization_pending", 5), Ok(5));
        assert_eq!((next("slow_down", 5), next("slow_down", 58)), (Ok(10), Ok(60)));
        assert!(next("access_denied", 5).unwrap_err().contains("refused"));
        assert!(next("expired_token", 5).unwrap_err().contains("expired"));
        assert_eq!(next("invalid_client", 5), Err("the server refused: invalid_client: why".to_owned()));
    }

    #[test]
    fn a_server_cannot_send_vmcp_to_addresses_of_this_machine() {
        let asked = |text: &str, server: &str| endpoint(text, &server.parse().unwrap()).is_ok();
        assert!(asked("https://login.example.com/device", "https://notes.example.com/mcp"));
        assert!(asked("http://127.0.0.1:8080/device", "http://localhost:9000/mcp"));
        for text in
            ["http://login.example.com/device", "https://127.0.0.1/device", "http://[::ffff:127.0.0.1]/"]
        {
            assert!(!asked(text, "https://notes.example.com/mcp"), "{text}");
        }
    }

    #[test]
    fn device_codes_are_for_servers_that_offer_them() {
        let server = "https://notes.example.com/mcp".parse().unwrap();
        let metadata = |device: Option<&str>| {
            let mut metadata = json!({
                "authorization_endpoint": "https://login.example.com/authorize",
                "token_endpoint": "https://login.example.com/token",
            });
            if let Some(device) = device {
                metadata["device_authorization_endpoint"] = device.into();
            }
            serde_json::from_value(metadata).unwrap()
        };
        let offered =
            Endpoints::from_metadata(&metadata(Some("https://login.example.com/device")), &server).unwrap();
        assert_eq!(offered.unwrap().device.path(), "/device");
        assert_eq!(Endpoints::from_metadata(&metadata(None), &server).unwrap(), None);
        assert!(
            Endpoints::from_metadata(&metadata(Some("http://login.example.com/device")), &server).is_err()
        );
    }
}
