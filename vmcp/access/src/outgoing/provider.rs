//! One token endpoint (RFC 6749, 3.2): sends a grant, authenticates vmcp as its client, reads the answer.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::redirect::Policy;
use reqwest::{Response, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use url::form_urlencoded::{Serializer, byte_serialize};
use vmcp_config::{Secret, TokenEndpoint};
use vmcp_egress::Proxies;
use vmcp_error_chain::error_chain;

use super::OutgoingError;

/// Time for a provider to answer; calls wait for it.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Time to open a connection to a provider.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of an answer; a token is a few KiB.
const MAX_ANSWER_BYTES: usize = 64 << 10;
/// Characters of a provider's words in an error.
const MAX_QUOTED: usize = 200;

/// The HTTP client for all providers. It follows no redirect, which could lead secrets elsewhere. Cheap to
/// clone.
#[derive(Clone, Debug, Default)]
pub struct HttpClient(std::sync::Arc<OnceLock<Option<reqwest::Client>>>);

impl HttpClient {
    /// Uses a client that exists.
    pub(crate) fn from_client(client: reqwest::Client) -> Self {
        let http = Self::default();
        // Nothing was set before.
        let _ = http.0.set(Some(client));
        http
    }

    pub(super) fn get(&self) -> Result<&reqwest::Client, OutgoingError> {
        let build = || {
            let builder = reqwest::Client::builder().redirect(Policy::none()).timeout(TIMEOUT);
            let builder = builder.proxy(Proxies::of_environment().for_reqwest());
            let client = builder.connect_timeout(CONNECT_TIMEOUT).build();
            client.inspect_err(|error| tracing::error!(error = error_chain(error), "no HTTP client")).ok()
        };
        self.0.get_or_init(build).as_ref().ok_or_else(|| OutgoingError {
            reason: "vmcp cannot ask for credentials; its log says why".to_owned(),
            detail: "no HTTP client".to_owned(),
        })
    }
}

/// A token endpoint, and the way in which it accepts the secret.
pub(crate) struct Provider {
    endpoint: TokenEndpoint,
    http: HttpClient,
    /// True if the provider takes the client's secret in the body only.
    secret_in_body: AtomicBool,
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Provider").field(&self.endpoint.url.as_str()).finish()
    }
}

/// The answer of a token endpoint.
#[derive(Debug, Deserialize)]
pub(crate) struct TokenAnswer {
    pub(crate) access_token: Secret,
    /// Seconds; some providers send a string.
    expires_in: Option<Value>,
    pub(crate) refresh_token: Option<Secret>,
    pub(crate) id_token: Option<Secret>,
    token_type: Option<String>,
}

impl TokenAnswer {
    /// The life of the token.
    pub(crate) fn life(&self) -> Option<Duration> {
        let seconds = match self.expires_in.as_ref()? {
            Value::String(text) => text.trim().parse::<f64>().ok()? as u64,
            number => number.as_f64()? as u64,
        };
        Some(Duration::from_secs(seconds))
    }

    /// True if the token is of the type that vmcp can present.
    fn is_bearer(&self) -> bool {
        self.token_type.as_deref().is_none_or(|kind| kind.eq_ignore_ascii_case("bearer"))
    }
}

/// The error document of a token endpoint (RFC 6749, 5.2).
#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorAnswer {
    error: String,
    error_description: String,
}

/// A request without a token.
pub(crate) struct NoToken {
    /// The error code; `None`: the provider was not reached or not understood.
    pub(crate) refused: Option<String>,
    pub(crate) error: OutgoingError,
}

/// Failure of one request: a status and the provider's words.
struct RefusedTokenRequest {
    status: StatusCode,
    answer: ErrorAnswer,
}

impl Provider {
    pub(crate) fn new(endpoint: TokenEndpoint, http: HttpClient) -> Self {
        Self { endpoint, http, secret_in_body: AtomicBool::new(false) }
    }

    /// Sends the client's secret in the body from the first request on.
    pub(super) fn with_secret_in_body(self) -> Self {
        self.secret_in_body.store(true, Ordering::Relaxed);
        self
    }

    /// The host, for messages.
    fn host(&self) -> &str {
        self.endpoint.url.host_str().unwrap_or_default()
    }

    /// Requests an access token; `form` are the parameters of the grant.
    pub(super) async fn access_token(&self, form: &[(&str, &str)]) -> Result<TokenAnswer, OutgoingError> {
        self.access_token_or_code(form).await.map_err(|failed| failed.error)
    }

    /// Requests an access token; a failure says whether the provider refused.
    pub(crate) async fn access_token_or_code(&self, form: &[(&str, &str)]) -> Result<TokenAnswer, NoToken> {
        let answer = self.try_ask(form).await?;
        if answer.is_bearer() {
            return Ok(answer);
        }
        Err(self.failed("it gave a token of a type that cannot be sent", "").into())
    }

    /// Requests any kind of token. The client's secret travels in the `Authorization` header; providers that
    /// refuse that get it in the body.
    pub(super) async fn ask(&self, form: &[(&str, &str)]) -> Result<TokenAnswer, OutgoingError> {
        self.try_ask(form).await.map_err(|failed| failed.error)
    }

    async fn try_ask(&self, form: &[(&str, &str)]) -> Result<TokenAnswer, NoToken> {
        let in_body = self.secret_in_body.load(Ordering::Relaxed);
        let refused = match self.send(form, in_body).await? {
            Ok(answer) => return Ok(answer),
            Err(refused) => refused,
        };
        let may_be_wrong_way = self.endpoint.client_secret.is_some() && !in_body;
        if may_be_wrong_way
            && refused.answer.error == "invalid_client"
            && let Ok(answer) = self.send(form, true).await?
        {
            self.secret_in_body.store(true, Ordering::Relaxed);
            return Ok(answer);
        }
        let RefusedTokenRequest { status, answer: ErrorAnswer { error, error_description } } = refused;
        let code = if error.is_empty() { format!("HTTP {}", status.as_u16()) } else { quoted(&error) };
        let failed = format!("it refused with {code}{}", remedy(&error));
        // Errors of the provider's own (5xx) pass; refusals of a grant do not.
        let refused = (!status.is_server_error()).then_some(code);
        Err(NoToken { refused, error: self.failed(&failed, &quoted(&error_description)) })
    }

    async fn send(
        &self,
        form: &[(&str, &str)],
        secret_in_body: bool,
    ) -> Result<Result<TokenAnswer, RefusedTokenRequest>, OutgoingError> {
        let unreachable =
            |error: &reqwest::Error| self.failed("it cannot be reached; try again later", &plain(error));
        let request = self.request(form, secret_in_body)?;
        let response = request.send().await.map_err(|error| unreachable(&error))?;
        let status = response.status();
        let answer = read(response).await.map_err(|error| unreachable(&error))?;
        if !status.is_success() {
            let answer = serde_json::from_slice(&answer).unwrap_or_default();
            return Ok(Err(RefusedTokenRequest { status, answer }));
        }
        // The parser's own words could quote a token.
        let malformed = |_| self.failed("its answer holds no token", "");
        serde_json::from_slice(&answer).map(Ok).or_else(|error| {
            // GitHub refuses with HTTP 200.
            match serde_json::from_slice::<ErrorAnswer>(&answer) {
                Ok(answer) if !answer.error.is_empty() => Ok(Err(RefusedTokenRequest { status, answer })),
                _ => Err(malformed(error)),
            }
        })
    }

    fn request(
        &self,
        form: &[(&str, &str)],
        secret_in_body: bool,
    ) -> Result<reqwest::RequestBuilder, OutgoingError> {
        let TokenEndpoint { url, client_id, client_secret } = &self.endpoint;
        let mut body = Serializer::new(String::new());
        body.extend_pairs(form);
        let mut request = self
            .http
            .get()?
            .post(url.clone())
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(ACCEPT, "application/json");
        match (client_id, client_secret) {
            (Some(id), Some(secret)) if !secret_in_body => {
                let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                request = request.basic_auth(encoded(id), Some(encoded(secret.expose())));
            }
            (Some(id), secret) => {
                body.append_pair("client_id", id);
                if let Some(secret) = secret {
                    body.append_pair("client_secret", secret.expose());
                }
            }
            (None, _) => {}
        }
        Ok(request.body(body.finish()))
    }

    /// An error that names the provider's host to the operator only.
    pub(super) fn failed(&self, reason: &str, detail: &str) -> OutgoingError {
        let separator = if detail.is_empty() { "" } else { ": " };
        OutgoingError {
            reason: format!("the identity provider gives no token: {reason}"),
            detail: format!("token endpoint at {}{separator}{detail}", self.host()),
        }
    }
}

impl From<OutgoingError> for NoToken {
    fn from(error: OutgoingError) -> Self {
        Self { refused: None, error }
    }
}

/// Reads at most [`MAX_ANSWER_BYTES`]; the rest is dropped, and the answer then not understood.
pub(super) async fn read(mut response: Response) -> reqwest::Result<Vec<u8>> {
    let mut answer = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        answer.extend_from_slice(&chunk);
        if answer.len() > MAX_ANSWER_BYTES {
            break;
        }
    }
    Ok(answer)
}

/// The error without the URL, which the host stands for.
pub(super) fn plain(error: &reqwest::Error) -> String {
    std::error::Error::source(error).map_or_else(|| "no answer".to_owned(), error_chain)
}

/// A provider's words for a log line: one line, bounded.
pub(super) fn quoted(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_QUOTED).collect()
}

/// Returns the remedy for an error code.
fn remedy(code: &str) -> &'static str {
    match code {
        "invalid_client" | "unauthorized_client" => "; check the client's identifier and secret",
        "invalid_grant" => "; sign in again",
        "invalid_scope" => "; check the scopes",
        "invalid_target" => "; check audience and resource",
        _ => "",
    }
}
