//! A running server: its MCP endpoint through an MCP client, its admin port by plain requests.

use std::time::Duration;

use reqwest::{Method, Response, StatusCode};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientConfig, Implementation,
    ProtocolVersion,
};
use rmcp::service::{ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use url::Url;
use vmcp_config::Secret;

use super::CallFailure;
use crate::cli::failure::{Exit, Failure};

/// How long a server may take to show that it is there.
pub(super) const PROBE: Duration = Duration::from_millis(500);

/// Calls a tool.
pub(super) async fn call(url: &Url, tool: &str, arguments: Map<String, Value>) -> Result<Value, CallFailure> {
    let unreachable = |reason: String| {
        Failure::new(format!("{url}: {reason}")).exit(Exit::Unreachable).remedy(
            "is `vmcp serve` running there? --url names another endpoint, --local starts the backends here",
        )
    };
    let lifecycle = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::V_2025_11_25),
    };
    let transport = StreamableHttpClientTransport::from_uri(url.as_str());
    let identity = Implementation::new("vmcp-cli", env!("CARGO_PKG_VERSION"));
    let client = ClientConfig::new(ClientCapabilities::default(), identity);
    let client = client.serve_with_lifecycle(transport, lifecycle).await;
    let client = match client {
        Ok(client) => client,
        Err(error) => return Err(unreachable(why_unreachable(url, &error).await).into()),
    };
    let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
    let answer = client.call_tool_once(request).await;
    // The answer is here; a session that cannot be ended will end by itself.
    let _ = client.cancel().await;
    match answer {
        Ok(CallToolResponse::Complete(result)) => Ok(serde_json::to_value(result)?),
        Ok(_) => Err(Failure::new("the tool asks a question first, which a command line cannot answer")
            .remedy("call it from an MCP client that answers questions of tools (elicitation)")
            .into()),
        Err(ServiceError::McpError(error)) => Err(CallFailure::of_protocol(&serde_json::to_value(error)?)),
        Err(ServiceError::TransportSend(error)) => Err(unreachable(root_cause(&error)).into()),
        Err(error) => Err(unreachable(error.to_string()).into()),
    }
}

/// The MCP client hides why a connection fails; a plain request says it.
async fn why_unreachable(url: &Url, error: &ClientInitializeError) -> String {
    let Ok(client) = client(PROBE) else { return error.to_string() };
    match client.get(url.clone()).send().await {
        Err(cause) if cause.is_connect() => root_cause(&cause),
        _ => error.to_string(),
    }
}

/// The admin port of a server.
pub(in crate::cli) struct AdminPort {
    pub(in crate::cli) url: Url,
    pub(in crate::cli) token: Option<Secret>,
}

impl AdminPort {
    /// Asks for a report.
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str, timeout: Duration) -> Result<T, Failure> {
        let answer = self.send(Method::GET, path, timeout).await?;
        let url = answer.url().clone();
        answer.json().await.map_err(|error| {
            let reason = root_cause(&error);
            Failure::new(format!("{url} is not the admin port of a vmcp of this version: {reason}"))
        })
    }

    /// Tells it to do something.
    pub(super) async fn post(&self, path: &str, timeout: Duration) -> Result<(), Failure> {
        self.send(Method::POST, path, timeout).await.map(drop)
    }

    async fn send(&self, method: Method, path: &str, timeout: Duration) -> Result<Response, Failure> {
        let url = format!("{}/{path}", self.url.as_str().trim_end_matches('/'));
        let mut request = client(timeout)?.request(method, &url);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.expose());
        }
        let answer = request.send().await.and_then(Response::error_for_status);
        answer.map_err(|error| unavailable(&url, &error))
    }
}

/// The server is on this machine or named by its address: no proxy belongs in between.
fn client(timeout: Duration) -> reqwest::Result<reqwest::Client> {
    reqwest::Client::builder().timeout(timeout).no_proxy().build()
}

fn unavailable(url: &str, error: &reqwest::Error) -> Failure {
    if error.status() == Some(StatusCode::UNAUTHORIZED) {
        return Failure::new(format!("{url} wants a token"))
            .remedy("give one of its server.adminTokens by --admin-token or VMCP_ADMIN_TOKEN");
    }
    Failure::new(format!("{url}: {}", root_cause(error))).exit(Exit::Unreachable).remedy(
        "is `vmcp serve` running there? --admin-url names another port, --local starts the backends here",
    )
}

/// The innermost message: the outer ones only say that something failed.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(cause) = error.source() {
        error = cause;
    }
    error.to_string()
}
