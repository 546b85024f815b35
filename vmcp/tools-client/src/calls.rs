//! [`McpConnection`]: the MCP connection over which tools are called, made with the first call. Over it the
//! server says that its list changed, which ends the life of all cached answers.

use std::sync::Arc;

use rmcp::ServiceExt as _;
use rmcp::handler::client::ClientHandler;
use rmcp::model::{CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, Implementation};
use rmcp::service::{NotificationContext, RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::{Map, Value};
use tokio::sync::Mutex;
use url::Url;

use crate::cache::AnswerCache;
use crate::error::ClientError;

/// A connection that is made when it is first needed.
pub(crate) struct McpConnection {
    running: Mutex<Option<RunningService<RoleClient, ChangeListener>>>,
    answers: Arc<AnswerCache>,
}

/// Forgets cached answers when the server's list of tools changes.
struct ChangeListener {
    identity: ClientConfig,
    answers: Arc<AnswerCache>,
}

impl ClientHandler for ChangeListener {
    fn get_info(&self) -> ClientConfig {
        self.identity.clone()
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.answers.clear();
    }
}

impl McpConnection {
    /// Makes the connection of a client with these answers.
    pub(crate) fn new(answers: Arc<AnswerCache>) -> McpConnection {
        McpConnection { running: Mutex::default(), answers }
    }

    /// Calls a tool at `endpoint`; returns its result, which may say that it failed.
    pub(crate) async fn call(
        &self,
        endpoint: &Url,
        token: Option<&str>,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<CallToolResult, ClientError> {
        let mut connection = self.running.lock().await;
        let running = match connection.take().filter(|running| !running.is_closed()) {
            Some(running) => running,
            None => self.connect(endpoint, token).await?,
        };
        let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let answer = running.call_tool(request).await;
        *connection = Some(running);
        answer.map_err(|error| ClientError::Mcp(error.to_string()))
    }

    /// Ends the connection.
    pub(crate) async fn close(&self) {
        if let Some(running) = self.running.lock().await.take() {
            // The server ends an abandoned session by itself.
            let _ = running.cancel().await;
        }
    }

    async fn connect(
        &self,
        endpoint: &Url,
        token: Option<&str>,
    ) -> Result<RunningService<RoleClient, ChangeListener>, ClientError> {
        let mut config = StreamableHttpClientTransportConfig::with_uri(endpoint.as_str());
        if let Some(token) = token {
            config = config.auth_header(token);
        }
        let name = Implementation::new("vmcp-tools-client", env!("CARGO_PKG_VERSION"));
        let listener = ChangeListener {
            identity: ClientConfig::new(ClientCapabilities::default(), name),
            answers: Arc::clone(&self.answers),
        };
        let running = listener.serve(StreamableHttpClientTransport::from_config(config)).await;
        running.map_err(|error| ClientError::Mcp(error.to_string()))
    }
}
