//! A general MCP client over one connection, for stages in which its own cost hardly counts.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST};
use hyper::{HeaderMap, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use vmcp_wire::headers;

/// Revision of clients with a session.
const LEGACY: &str = "2025-11-25";
/// Revision of clients without a session.
const MODERN: &str = "2026-07-28";

/// A client of one server.
pub(crate) struct McpClient {
    connection: SendRequest<Full<Bytes>>,
    address: SocketAddr,
    session: Option<String>,
}

impl McpClient {
    /// Connects. Until it opens a session, the client speaks 2026-07-28.
    pub(crate) async fn connect(address: SocketAddr) -> Result<McpClient> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (connection, driver) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(driver);
        Ok(McpClient { connection, address, session: None })
    }

    /// Sends a GET; returns the status.
    pub(crate) async fn get(&mut self, path: &str) -> Result<StatusCode> {
        let request = Request::get(path).header(HOST, self.address.to_string()).body(Full::default())?;
        Ok(self.send(request).await?.0)
    }

    /// Opens a session of 2025-11-25, to which all further requests belong.
    pub(crate) async fn open_session(&mut self) -> Result<()> {
        let hello = json!({"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}});
        let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello});
        let request = self.post().body(Bytes::from(message.to_string()).into())?;
        let (status, headers, _) = self.send(request).await?;
        let id = headers.get(headers::SESSION_ID).with_context(|| format!("no session: {status}"))?;
        self.session = Some(id.to_str()?.to_owned());
        let message = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let request = self.post().header(headers::SESSION_ID, id).header(headers::PROTOCOL_VERSION, LEGACY);
        let (status, ..) = self.send(request.body(Bytes::from(message.to_string()).into())?).await?;
        ensure!(status == StatusCode::ACCEPTED, "initialized: {status}");
        Ok(())
    }

    /// Sends a request; returns the body of the answer. A status other than 200 is an error.
    pub(crate) async fn request(&mut self, method: &str, mut params: Value) -> Result<Bytes> {
        let mut post = self.post();
        if let Some(session) = &self.session {
            post = post.header(headers::PROTOCOL_VERSION, LEGACY).header(headers::SESSION_ID, session);
        } else {
            post = post.header(headers::PROTOCOL_VERSION, MODERN).header(headers::METHOD, method);
            if let Some(name) = params.get("name").and_then(Value::as_str) {
                post = post.header(headers::NAME, name);
            }
            let meta = json!({
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
            });
            params.as_object_mut().context("parameters are an object")?.insert("_meta".into(), meta);
        }
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let (status, _, body) = self.send(post.body(Bytes::from(message.to_string()).into())?).await?;
        ensure!(status == StatusCode::OK, "{method}: {status} {}", String::from_utf8_lossy(&body));
        Ok(body)
    }

    fn post(&self) -> http::request::Builder {
        Request::post("/mcp")
            .header(HOST, self.address.to_string())
            .header(ACCEPT, "application/json, text/event-stream")
            .header(CONTENT_TYPE, "application/json")
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<(StatusCode, HeaderMap, Bytes)> {
        self.connection.ready().await?;
        let (parts, body) = self.connection.send_request(request).await?.into_parts();
        Ok((parts.status, parts.headers, body.collect().await?.to_bytes()))
    }
}
