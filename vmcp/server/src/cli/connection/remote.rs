//! A running server: its MCP endpoint through an MCP client, its admin port by plain requests.

use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientConfig, Implementation,
    ProtocolVersion,
};
use rmcp::service::{ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use url::Url;

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

/// Asks the admin port.
pub(super) async fn get<T: DeserializeOwned>(
    base: &Url,
    path: &str,
    timeout: Duration,
) -> Result<T, Failure> {
    let url = at(base, path);
    let response = client(timeout)?.get(&url).send().await.and_then(reqwest::Response::error_for_status);
    response.map_err(|error| unreachable_admin(&url, &error))?.json().await.map_err(|error| {
        Failure::new(format!("{url} is not the admin port of a vmcp of this version: {}", root_cause(&error)))
    })
}

fn at(base: &Url, path: &str) -> String {
    format!("{}/{path}", base.as_str().trim_end_matches('/'))
}

/// The server is on this machine or named by its address: no proxy belongs in between.
fn client(timeout: Duration) -> reqwest::Result<reqwest::Client> {
    reqwest::Client::builder().timeout(timeout).no_proxy().build()
}

/// Tells the admin port to do something.
pub(super) async fn post(base: &Url, path: &str, timeout: Duration) -> Result<(), Failure> {
    let url = at(base, path);
    let response = client(timeout)?.post(&url).send().await.and_then(reqwest::Response::error_for_status);
    response.map(drop).map_err(|error| unreachable_admin(&url, &error))
}

fn unreachable_admin(url: &str, error: &reqwest::Error) -> Failure {
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
