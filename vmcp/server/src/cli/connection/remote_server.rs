//! A running vmcp server: tools are called through its MCP endpoint with an MCP client, reports are read from
//! its admin port with plain HTTP requests. Neither goes through a proxy.

use std::path::PathBuf;
use std::time::Duration;

use reqwest::{ClientBuilder, Method, RequestBuilder, Response, StatusCode};
use rmcp::model::{CallToolRequestParams, CallToolResponse, ProtocolVersion};
use rmcp::service::{ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use url::Url;
use vmcp_config::Secret;
use vmcp_error_chain::error_chain;

use super::call_failure::CallFailure;
use super::consent::{Consent, ConsentingClient};
use super::http_client;
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::running_server::local_socket;
use vmcp_edge::port::admin::operator_call::{OperatorAnswer, OperatorCall};

/// Time in which a server must answer to count as running; kept short because most commands wait for it.
pub(super) const PROBE_TIMEOUT: Duration = Duration::from_millis(500);

/// MCP endpoint of a server, and the credentials for it.
pub(in crate::cli) struct McpPort {
    /// URL of the endpoint.
    pub(in crate::cli) url: Url,
    /// Bearer token, if the server wants one.
    pub(in crate::cli) token: Option<Secret>,
}

/// Calls a tool over MCP: a client of 2026-07-28 that falls back to 2025-11-25.
///
/// Returns the `CallToolResult` as JSON. A tool that asks a question first (`input_required`) is an error,
/// because a command cannot answer it; with [`Consent::Given`] such questions are declined.
pub(super) async fn call(
    port: &McpPort,
    tool: &str,
    arguments: Map<String, Value>,
    consent: Consent,
) -> Result<Value, CallFailure> {
    let McpPort { url, token } = port;
    let unreachable = |reason: String| {
        CommandFailure::new(format!("{url}: {reason}")).exit(Exit::Unreachable).remedy(remedy(url, &reason))
    };
    let lifecycle = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::V_2025_11_25),
    };
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
    if let Some(token) = token {
        config = config.auth_header(token.expose());
    }
    let http = http_client::for_mcp().map_err(CommandFailure::from)?;
    let transport = StreamableHttpClientTransport::with_client(http, config);
    let client = ConsentingClient::new(consent).serve_with_lifecycle(transport, lifecycle).await;
    let client = match client {
        Ok(client) => client,
        Err(error) => {
            return Err(match why_unreachable(port, &error).await {
                WhyUnreachable::Refused(status) => refused(port, status).into(),
                WhyUnreachable::Because(reason) => unreachable(reason).into(),
            });
        }
    };
    let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
    let answer = match consent {
        Consent::Absent => client.call_tool_once(request).await,
        Consent::Given => client.call_tool(request).await.map(CallToolResponse::Complete),
    };
    // The answer is here already; the server closes a session that this fails to end once it is idle.
    let _ = client.cancel().await;
    match answer {
        Ok(CallToolResponse::Complete(result)) => Ok(serde_json::to_value(result)?),
        Ok(_) => {
            Err(CommandFailure::new("the tool asks a question first, which a command line cannot answer")
                .remedy("call it from an MCP client that answers questions of tools (elicitation)")
                .into())
        }
        Err(ServiceError::McpError(error)) => Err(CallFailure::of_protocol(&serde_json::to_value(error)?)),
        Err(ServiceError::TransportSend(error)) => Err(unreachable(error_chain(&error)).into()),
        Err(error) => Err(unreachable(error.to_string()).into()),
    }
}

fn remedy(url: &Url, reason: &str) -> &'static str {
    if url.scheme() == "https" && reason.contains("certificate") {
        return "name the authority of its certificate by SSL_CERT_FILE=ca.crt, and the host in the certificate by \
                --url; --local starts the backends here";
    }
    "is `vmcp serve` running there? --url names another endpoint, --local starts the backends here"
}

/// Reason why an MCP client could not connect.
enum WhyUnreachable {
    /// The server refuses these credentials.
    Refused(StatusCode),
    /// Another reason, in words.
    Because(String),
}

/// Returns the reason why the MCP client could not connect. Its own error hides the cause, so a plain request
/// is tried.
async fn why_unreachable(port: &McpPort, error: &ClientInitializeError) -> WhyUnreachable {
    let Ok(client) = http_client::builder().timeout(PROBE_TIMEOUT).build() else {
        return WhyUnreachable::Because(error.to_string());
    };
    let mut request = client.get(port.url.clone());
    if let Some(token) = &port.token {
        request = request.bearer_auth(token.expose());
    }
    match request.send().await {
        Err(cause) if cause.is_connect() => WhyUnreachable::Because(in_one_line(cause)),
        Ok(answer) if matches!(answer.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
            WhyUnreachable::Refused(answer.status())
        }
        _ => WhyUnreachable::Because(error.to_string()),
    }
}

/// Returns the failure of a client without credentials that the server accepts.
fn refused(McpPort { url, token }: &McpPort, status: StatusCode) -> CommandFailure {
    let what = if token.is_some() { "refuses this token" } else { "wants a token" };
    CommandFailure::new(format!("{url} {what} (HTTP {})", status.as_u16()))
        .exit(Exit::Unreachable)
        .remedy("give a key or a token that its `incomingAuth` accepts, by --token or VMCP_TOKEN")
}

/// Address and credentials of a server's admin port.
pub(in crate::cli) struct AdminPort {
    /// Base URL.
    pub(in crate::cli) url: Url,
    /// Bearer token, if the server wants one.
    pub(in crate::cli) token: Option<Secret>,
    /// Socket through which requests go, of a server that has no port.
    pub(in crate::cli) socket: Option<PathBuf>,
}

impl AdminPort {
    /// Returns the reports at the local socket of a server.
    pub(super) fn at_socket(socket: PathBuf) -> Option<AdminPort> {
        Some(AdminPort { url: Url::parse("http://localhost").ok()?, token: None, socket: Some(socket) })
    }

    /// Calls a tool, which a local socket alone offers.
    pub(super) async fn call(&self, call: &OperatorCall) -> Result<OperatorAnswer, CallFailure> {
        let request = self.request(Method::POST, "admin/call", None)?;
        let answer = request.json(call).send().await.and_then(Response::error_for_status);
        let answer = answer.map_err(|error| unavailable("its local socket", error))?;
        Ok(answer.json().await?)
    }

    /// Gets a report and parses it.
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        timeout: Duration,
    ) -> Result<T, CommandFailure> {
        self.json(Method::GET, path, timeout).await
    }

    /// Requests an action, and returns its report.
    pub(super) async fn post_for<T: DeserializeOwned>(
        &self,
        path: &str,
        timeout: Duration,
    ) -> Result<T, CommandFailure> {
        self.json(Method::POST, path, timeout).await
    }

    async fn json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        timeout: Duration,
    ) -> Result<T, CommandFailure> {
        let answer = self.send(method, path, timeout).await?;
        let url = answer.url().clone();
        answer.json().await.map_err(|error| {
            let reason = in_one_line(error);
            CommandFailure::new(format!(
                "{url} does not answer as the admin port of vmcp {}: {reason}",
                env!("CARGO_PKG_VERSION")
            ))
        })
    }

    /// Sends a request, with JSON if `body` has some, and returns the report that answers it. The reason of a
    /// refusal is the server's own.
    pub(super) async fn exchange<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        timeout: Duration,
    ) -> Result<T, CommandFailure> {
        let url = self.address_of(path);
        let request = self.request(method, path, Some(timeout))?;
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        let answer = request.send().await.map_err(|error| unavailable(&url, error))?;
        let exit = match answer.status() {
            StatusCode::BAD_REQUEST => Some(Exit::Usage),
            StatusCode::NOT_FOUND => Some(Exit::NothingFound),
            _ => None,
        };
        if let Some(exit) = exit {
            let refusal: Option<Refusal> = answer.json().await.ok();
            return Err(match refusal {
                Some(Refusal { error }) => CommandFailure::new(error).exit(exit),
                None => CommandFailure::new(format!("{url}: the server has no such report"))
                    .exit(Exit::Failed)
                    .remedy("it may be of an older version; `vmcp restart` starts this one"),
            });
        }
        let answer = answer.error_for_status().map_err(|error| unavailable(&url, error))?;
        answer.json().await.map_err(|error| {
            CommandFailure::new(format!("{url} does not answer as expected: {}", in_one_line(error)))
        })
    }

    /// Returns the address of the web console, once the port has answered that it serves one.
    pub(in crate::cli) async fn console_url(&self, timeout: Duration) -> Result<String, CommandFailure> {
        let answer = self.request(Method::GET, "console/console.css", Some(timeout))?.send().await;
        let answer = answer.map_err(|error| unavailable(self.url.as_str(), error))?;
        if !answer.status().is_success() {
            return Err(CommandFailure::new(format!("{} serves no web console", self.url)).remedy(
                "set `server: { console: loopback }`, or `tokens` with `adminTokens` on other addresses",
            ));
        }
        Ok(self.address_of("console/"))
    }

    /// Requests an action.
    pub(super) async fn post(&self, path: &str, timeout: Duration) -> Result<(), CommandFailure> {
        self.send(Method::POST, path, timeout).await.map(drop)
    }

    async fn send(&self, method: Method, path: &str, timeout: Duration) -> Result<Response, CommandFailure> {
        let request = self.request(method, path, Some(timeout))?;
        let answer = request.send().await.and_then(Response::error_for_status);
        answer.map_err(|error| unavailable(&self.address_of(path), error))
    }

    fn address_of(&self, path: &str) -> String {
        format!("{}/{path}", self.url.as_str().trim_end_matches('/'))
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        timeout: Option<Duration>,
    ) -> reqwest::Result<RequestBuilder> {
        let client = match &self.socket {
            Some(socket) => {
                client().unix_socket(local_socket::address(socket).unwrap_or_else(|_| socket.clone()))
            }
            None => client(),
        };
        let client = timeout.into_iter().fold(client, ClientBuilder::timeout).build()?;
        let mut request = client.request(method, self.address_of(path));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.expose());
        }
        Ok(request)
    }
}

/// The answer to a refused request.
#[derive(Deserialize)]
struct Refusal {
    error: String,
}

/// Returns an HTTP client without a proxy: the server runs on this machine or is named by its address.
fn client() -> ClientBuilder {
    reqwest::Client::builder().no_proxy()
}

/// Returns the failure of a request to the admin port, with the remedy for it.
fn unavailable(url: &str, error: reqwest::Error) -> CommandFailure {
    if error.status() == Some(StatusCode::UNAUTHORIZED) {
        return CommandFailure::new(format!("{url} wants a token"))
            .remedy("give one of its server.adminTokens by --admin-token or VMCP_ADMIN_TOKEN");
    }
    CommandFailure::new(format!("{url}: {}", in_one_line(error))).exit(Exit::Unreachable).remedy(
        "is `vmcp serve` running there? --admin-url names another port, --local starts the backends here",
    )
}

/// Returns a request's error in one line. The URL is left out: each message here begins with it.
fn in_one_line(error: reqwest::Error) -> String {
    error_chain(&error.without_url())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_that_wants_a_token_is_said_to_want_one() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url: Url = format!("http://{}/mcp", listener.local_addr().unwrap()).parse().unwrap();
        let locked = axum::Router::new().fallback(|headers: http::HeaderMap| async move {
            let known = headers.get("authorization").is_some_and(|value| value == "Bearer key-1");
            if known { StatusCode::NOT_FOUND } else { StatusCode::UNAUTHORIZED }
        });
        tokio::spawn(async move { axum::serve(listener, locked).await });
        for (token, expected) in [(None, "wants a token"), (Some("other"), "refuses this token")] {
            let port = McpPort { url: url.clone(), token: token.map(Secret::from) };
            let called = call(&port, "x", Map::new(), Consent::Absent).await;
            let Err(CallFailure::Other(failure)) = called else { panic!("{called:?}") };
            assert!(failure.message().contains(expected), "{}", failure.message());
            assert!(failure.remedy_text().unwrap().contains("VMCP_TOKEN"));
            assert!(!failure.message().contains("rmcp"), "{}", failure.message());
        }
        let port = McpPort { url, token: Some(Secret::from("key-1")) };
        let Err(CallFailure::Other(failure)) = call(&port, "x", Map::new(), Consent::Absent).await else {
            panic!("there is no MCP server")
        };
        assert!(!failure.message().contains("token"), "the token is sent: {}", failure.message());
    }

    #[tokio::test]
    async fn an_unreachable_server_is_named_once_with_the_cause() {
        // reqwest wants a TLS provider, which `cli::main` installs otherwise.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let port = AdminPort { url: "http://127.0.0.1:1".parse().unwrap(), token: None, socket: None };
        let failure = port.get::<Value>("admin/status", PROBE_TIMEOUT).await.unwrap_err();
        let message = failure.message();
        assert!(message.starts_with("http://127.0.0.1:1/admin/status: error sending request: "), "{message}");
        assert!(message.contains(": Connection refused"), "{message}");
        assert_eq!(message.matches("http://127.0.0.1:1").count(), 1, "{message}");
    }
}
