//! Raw MCP client over HTTP, in either era, for assertions down to the byte.

mod answer;
mod dialogue;

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{RequestBuilder, Response};
use serde_json::{Map, Value, json};

use crate::WAIT_TIMEOUT;

pub use answer::HttpAnswer;
pub use dialogue::{Messages, User};

/// The modern revision.
pub const MODERN: &str = "2026-07-28";

/// Returns an HTTP client that gives up on a request after a minute. It trusts no authority: servers of tests
/// speak plain HTTP, and parsing the authorities of the system takes longer than most requests.
pub fn http_client() -> reqwest::Client {
    // Another crate of the workspace turns TLS on in reqwest, without a provider for it. A second
    // installation fails, which is no harm.
    drop(rustls::crypto::ring::default_provider().install_default());
    let builder = reqwest::Client::builder().timeout(Duration::from_mins(1)).no_proxy();
    builder.tls_certs_only([]).build().expect("an HTTP client")
}

/// A client of one MCP endpoint.
pub struct Client {
    http: reqwest::Client,
    url: String,
    /// The `Mcp-Session-Id` of a legacy client.
    pub session: Option<String>,
    revision: String,
    name: String,
    capabilities: Value,
    next_id: AtomicU64,
}

impl Client {
    /// Returns a client of 2026-07-28.
    pub fn modern(url: &str) -> Self {
        Self {
            http: http_client(),
            url: url.to_owned(),
            session: None,
            revision: MODERN.to_owned(),
            name: "raw".to_owned(),
            capabilities: json!({}),
            next_id: AtomicU64::new(1),
        }
    }

    /// Returns a legacy client with an open session; `name` goes into `clientInfo`.
    pub async fn legacy(url: &str, revision: &str, name: &str) -> Self {
        Self::legacy_with(url, revision, name, json!({})).await
    }

    /// Returns a legacy client with an open session that declares capabilities.
    pub async fn legacy_with(url: &str, revision: &str, name: &str, capabilities: Value) -> Self {
        let client =
            Self { revision: revision.to_owned(), name: name.to_owned(), capabilities, ..Self::modern(url) };
        client.begin_session().await
    }

    /// Returns a legacy client with an open session that sends a bearer token.
    pub async fn legacy_bearing(url: &str, token: &str) -> Self {
        Self::modern(url).bearing(token).as_legacy().begin_session().await
    }

    async fn begin_session(mut self) -> Self {
        let client = &mut self;
        let (revision, name) = (&client.revision, &client.name);
        let params = json!({"protocolVersion": revision, "capabilities": client.capabilities,
            "clientInfo": {"name": name, "version": "1"}});
        let opened = client.request("initialize", params).await;
        assert_eq!(opened.result()["protocolVersion"], revision.as_str(), "{}", opened.text);
        client.session =
            opened.headers.get("mcp-session-id").map(|id| id.to_str().expect("a plain id").to_owned());
        client.notify("notifications/initialized", json!({})).await;
        self
    }

    /// Sends a bearer token with each request.
    #[must_use]
    pub fn bearing(self, token: &str) -> Self {
        let mut value = HeaderValue::try_from(format!("Bearer {token}")).expect("a token for a header");
        value.set_sensitive(true);
        let headers = HeaderMap::from_iter([(AUTHORIZATION, value)]);
        let http = reqwest::Client::builder().timeout(WAIT_TIMEOUT).no_proxy().default_headers(headers);
        Self { http: http.build().expect("an HTTP client"), ..self }
    }

    /// Makes the client open a new connection for each request, so that a balancer of connections deals out
    /// requests.
    #[must_use]
    pub fn reconnecting(self) -> Self {
        let http = reqwest::Client::builder().timeout(WAIT_TIMEOUT).no_proxy().pool_max_idle_per_host(0);
        Self { http: http.build().expect("an HTTP client"), ..self }
    }

    /// Makes the client connect from another address of this machine, so that limits count it apart.
    #[must_use]
    pub fn from_address(self, address: IpAddr) -> Self {
        let http = reqwest::Client::builder().timeout(WAIT_TIMEOUT).no_proxy().local_address(address);
        Self { http: http.build().expect("an HTTP client"), ..self }
    }

    /// Changes the name in `clientInfo`.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    /// Declares capabilities with each request of a modern client.
    #[must_use]
    pub fn declaring(self, capabilities: Value) -> Self {
        Self { capabilities, ..self }
    }

    /// Uses another session id.
    #[must_use]
    pub fn with_session(self, id: &str) -> Self {
        Self { session: Some(id.to_owned()), ..self }
    }

    /// Makes it a legacy client without a session.
    #[must_use]
    pub fn as_legacy(self) -> Self {
        Self { revision: "2025-11-25".to_owned(), ..self }
    }

    fn is_modern(&self) -> bool {
        self.revision == MODERN
    }

    /// Sends a request and reads its answer whole.
    pub async fn request(&self, method: &str, params: Value) -> HttpAnswer {
        HttpAnswer::read(self.open(method, params).await).await
    }

    /// Sends a request and returns the response unread, for streams and for leaving early.
    pub async fn open(&self, method: &str, params: Value) -> Response {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        self.open_as(id, method, params).await
    }

    /// Like [`Client::open`], under an id of the caller's choice.
    pub async fn open_as(&self, id: u64, method: &str, params: Value) -> Response {
        let params = self.stamp(params);
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.post(method, &params, &message.to_string()).send().await.expect("an HTTP answer")
    }

    /// Sends a notification; any status but 202 fails the test.
    pub async fn notify(&self, method: &str, params: Value) {
        let params = self.stamp(params);
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        let sent = self.post(method, &params, &message.to_string()).send().await.expect("an HTTP answer");
        assert_eq!(sent.status(), 202, "{method}: {:?}", sent.text().await);
    }

    /// Returns a POST with the headers that `method` and `params` ask for; the caller may add or replace
    /// some.
    pub fn post(&self, method: &str, params: &Value, body: &str) -> RequestBuilder {
        let mut post = self
            .http
            .post(&self.url)
            .header(ACCEPT, "application/json, text/event-stream")
            .header(CONTENT_TYPE, "application/json")
            .body(body.to_owned());
        if self.is_modern() || self.session.is_some() {
            post = post.header("mcp-protocol-version", &self.revision);
        }
        if let Some(session) = &self.session {
            post = post.header("mcp-session-id", session);
        }
        if self.is_modern() {
            post = post.header("mcp-method", method);
            let name = params.get("name").or_else(|| params.get("uri")).and_then(Value::as_str);
            if let (Some(name), "tools/call" | "prompts/get" | "resources/read") = (name, method) {
                post = post.header("mcp-name", name);
            }
            let task = params.get("taskId").and_then(Value::as_str);
            if let (Some(task), "tasks/get" | "tasks/update" | "tasks/cancel") = (task, method) {
                post = post.header("mcp-name", task);
            }
        }
        post
    }

    /// Adds the `_meta` of a modern request; keys that the caller set stay.
    pub fn stamp(&self, mut params: Value) -> Value {
        if !self.is_modern() {
            return params;
        }
        let meta = params.as_object_mut().expect("params").entry("_meta").or_insert_with(|| json!({}));
        let reserved = [
            ("io.modelcontextprotocol/protocolVersion", json!(MODERN)),
            ("io.modelcontextprotocol/clientCapabilities", self.capabilities.clone()),
            ("io.modelcontextprotocol/clientInfo", json!({"name": self.name, "version": "1"})),
        ];
        for (key, value) in reserved {
            meta.as_object_mut().expect("_meta").entry(key).or_insert(value);
        }
        params
    }

    /// Opens the GET stream of a legacy session, or `subscriptions/listen` for changes of tools.
    pub async fn listen(&self) -> Response {
        if self.is_modern() {
            return self
                .open("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}))
                .await;
        }
        let get = self.http.get(&self.url).header(ACCEPT, "text/event-stream");
        let get = get.header("mcp-protocol-version", &self.revision);
        get.header("mcp-session-id", self.session.clone().unwrap_or_default()).send().await.expect("a stream")
    }

    /// Ends a legacy session by `DELETE`.
    pub async fn close(&self) -> Response {
        let delete = self.http.delete(&self.url).header("mcp-protocol-version", &self.revision);
        delete
            .header("mcp-session-id", self.session.clone().unwrap_or_default())
            .send()
            .await
            .expect("an answer")
    }

    /// Sends `tools/call`.
    pub async fn call_tool(&self, name: &str, arguments: Value) -> HttpAnswer {
        self.request("tools/call", json!({"name": name, "arguments": arguments})).await
    }

    /// Calls `optim.find_tool`.
    pub async fn find_tool(&self, arguments: Value) -> HttpAnswer {
        self.call_tool("optim.find_tool", arguments).await
    }

    /// Calls a tool of a backend by `optim.call_tool`.
    pub async fn call_found(&self, tool: &str, parameters: Value) -> HttpAnswer {
        self.call_tool("optim.call_tool", json!({"tool_name": tool, "parameters": parameters})).await
    }

    /// Returns every tool on the list by name, from all pages.
    pub async fn tools(&self) -> Map<String, Value> {
        let (mut tools, mut params) = (Map::new(), json!({}));
        loop {
            let page = self.request("tools/list", params).await;
            for tool in page.result()["tools"].as_array().expect("a list of tools") {
                tools.insert(tool["name"].as_str().expect("a name").to_owned(), tool.clone());
            }
            match page.result().get("nextCursor") {
                Some(cursor) => params = json!({"cursor": cursor}),
                None => return tools,
            }
        }
    }
}
