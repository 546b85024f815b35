//! [`DynamicToolClient`]: tools by topic, cached, and their calls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::{Method, Response};
use rmcp::model::CallToolResult;
use serde_json::{Map, Value};
use url::Url;

use crate::answers::{FoundTools, ToolUsage};
use crate::cache::AnswerCache;
use crate::calls::McpConnection;
use crate::contexts::extract_context_from_message;
use crate::error::ClientError;

/// Time limit of one request for tools; the server answers from memory.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Filters of [`DynamicToolClient::get_tools`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolOptions {
    /// Wanted contexts: a tool of any of them matches. An empty list matches no tool.
    pub contexts: Vec<String>,
    /// Wanted category, besides the contexts.
    pub category: Option<String>,
    /// Name of a profile, to which the answer is narrowed.
    pub user_id: Option<String>,
    /// Most tools.
    pub limit: Option<usize>,
}

/// Client of one server.
pub struct DynamicToolClient {
    base: Url,
    token: Option<String>,
    http: reqwest::Client,
    answers: Arc<AnswerCache>,
    mcp: McpConnection,
}

impl DynamicToolClient {
    /// Makes a client of the server at this base URL, such as `http://127.0.0.1:4483`.
    pub fn new(base: &str) -> Result<DynamicToolClient, ClientError> {
        let invalid = || ClientError::Address(base.to_owned());
        let base = Url::parse(base).ok().filter(Url::has_host).ok_or_else(invalid)?;
        // Fails if the program has chosen a provider of TLS already, which is then used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().timeout(REQUEST_TIMEOUT).build()?;
        let answers = Arc::<AnswerCache>::default();
        let mcp = McpConnection::new(Arc::clone(&answers));
        Ok(DynamicToolClient { base, token: None, http, answers, mcp })
    }

    /// Authenticates with this bearer token.
    #[must_use]
    pub fn with_token(self, token: impl Into<String>) -> DynamicToolClient {
        DynamicToolClient { token: Some(token.into()), ..self }
    }

    /// Returns the tools for some contexts. An answer is kept for a minute, and once a tool was called, until
    /// the server says that its list changed.
    pub async fn get_tools(&self, options: &ToolOptions) -> Result<FoundTools, ClientError> {
        let url = self.tools_url(options)?;
        let now = Instant::now();
        if let Some(found) = self.answers.get(url.as_str(), now) {
            return Ok(found);
        }
        let found: FoundTools = self.send(Method::GET, url.clone()).await?.json().await?;
        self.answers.put(url.into(), now, found.clone());
        Ok(found)
    }

    /// Returns the tools for the contexts that a message means, in place of those in `options`. A message
    /// that means none is answered without asking the server.
    pub async fn get_tools_from_message(
        &self,
        message: &str,
        options: &ToolOptions,
    ) -> Result<FoundTools, ClientError> {
        let contexts = extract_context_from_message(message);
        if contexts.is_empty() {
            return Ok(FoundTools::without_context());
        }
        self.get_tools(&ToolOptions { contexts, ..options.clone() }).await
    }

    /// Calls a tool by its name; returns its result, which may say that it failed.
    pub async fn call_tool(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<CallToolResult, ClientError> {
        self.mcp.call(&self.url("mcp")?, self.token.as_deref(), tool, arguments).await
    }

    /// Returns the tokens that contexts saved so far.
    pub async fn get_metrics(&self) -> Result<ToolUsage, ClientError> {
        let url = self.url("tools/metrics")?;
        Ok(self.send(Method::GET, url).await?.json().await?)
    }

    /// Resets the figures of the server, and forgets cached answers.
    pub async fn reset_metrics(&self) -> Result<(), ClientError> {
        self.answers.clear();
        let url = self.url("tools/metrics/reset")?;
        self.send(Method::POST, url).await.map(drop)
    }

    /// Ends the connection for calls.
    pub async fn close(self) {
        self.mcp.close().await;
    }

    fn tools_url(&self, options: &ToolOptions) -> Result<Url, ClientError> {
        let ToolOptions { contexts, category, user_id, limit } = options;
        let mut url = self.url("tools")?;
        let limit = limit.map(|limit| limit.to_string());
        let texts =
            [("category", category.as_ref()), ("userId", user_id.as_ref()), ("limit", limit.as_ref())];
        let contexts = Some(contexts.join(",")).filter(|contexts| !contexts.is_empty());
        url.query_pairs_mut()
            .extend_pairs(contexts.map(|contexts| ("context", contexts)))
            .extend_pairs(texts.into_iter().filter_map(|(name, value)| Some((name, value?))));
        Ok(url)
    }

    fn url(&self, path: &str) -> Result<Url, ClientError> {
        let base = self.base.as_str().trim_end_matches('/');
        Url::parse(&format!("{base}/{path}")).map_err(|_| ClientError::Address(base.to_owned()))
    }

    async fn send(&self, method: Method, url: Url) -> Result<Response, ClientError> {
        let mut request = self.http.request(method, url);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let answer = request.send().await?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let body = answer.text().await.unwrap_or_default();
        let said = serde_json::from_str::<Value>(&body).ok();
        let message = said.as_ref().and_then(|said| said.get("message")).and_then(Value::as_str);
        Err(ClientError::Refused { status: status.as_u16(), message: message.unwrap_or(&body).to_owned() })
    }
}
