//! An MCP client of either era that replays one prepared request with a new id each time, at almost no cost.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use serde_json::value::RawValue;
use vmcp_wire::era::Era;
use vmcp_wire::{headers, methods};

use super::http_connection::{HttpConnection, HttpResponse};

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";
/// First id. All ids have nine digits, so that every request has the same length.
const FIRST_ID: u64 = 100_000_000;
const DIGITS: usize = 9;

/// Address of an MCP endpoint.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    pub(crate) path: String,
}

/// A client with one connection.
pub(crate) struct ReplayClient {
    pub(crate) connection: HttpConnection,
    endpoint: Endpoint,
    era: Era,
    session: Option<String>,
    next_id: u64,
}

/// A request that is replayed; each time only its id is overwritten.
pub(crate) struct PreparedRequest {
    bytes: Vec<u8>,
    id_at: usize,
    /// First answer that passed the check, and the position of its id. Further answers must equal it, ids
    /// apart.
    reference: Option<(Vec<u8>, usize)>,
}

/// Answer that a request must get.
#[derive(Debug, Clone)]
pub(crate) struct ExpectedResult {
    /// Result as the backend sends it to a client of this era.
    pub(crate) result: String,
    /// Required similarity of the answer.
    pub(crate) exactness: Exactness,
}

/// Required similarity of a result to the backend's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exactness {
    /// Equal bytes.
    Same,
    /// Equal members in any order, `_meta` apart: vmcp translated between eras.
    Translated,
    /// Equal `content`: a gateway of others may add members.
    Content,
}

#[derive(Deserialize)]
struct Response<'a> {
    id: u64,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

type Members<'a> = BTreeMap<&'a str, &'a RawValue>;

impl ReplayClient {
    /// Connects; a legacy client opens its session. `number` sets the range of its ids apart from those of
    /// other clients.
    pub(crate) async fn connect(endpoint: &Endpoint, era: Era, number: u64) -> Result<ReplayClient> {
        let connection = HttpConnection::open(endpoint.address).await?;
        let next_id = FIRST_ID + number % 800 * 1_000_000;
        let mut client = ReplayClient { connection, endpoint: endpoint.clone(), era, session: None, next_id };
        if era == Era::Legacy {
            client.open_session().await?;
        }
        Ok(client)
    }

    /// Opens a session, to which all further requests belong.
    pub(crate) async fn open_session(&mut self) -> Result<()> {
        self.session = None;
        let hello = format!(
            r#"{{"protocolVersion":"{LEGACY}","capabilities":{{}},"clientInfo":{{"name":"bench","version":"1"}}}}"#
        );
        let mut initialize = self.prepare(methods::INITIALIZE, &hello)?;
        let received = self.send(&mut initialize).await?;
        ensure!(received.status == 200, "initialize: {}", text(received.body));
        self.session = received.header(headers::SESSION_ID).map(str::to_owned);
        let body = format!(r#"{{"jsonrpc":"2.0","method":"{}"}}"#, methods::INITIALIZED);
        let request = self.post(methods::INITIALIZED, None, &body);
        let received = self.connection.exchange(&request).await?;
        ensure!(received.status == 202, "initialized: {} {}", received.status, text(received.body));
        Ok(())
    }

    /// Prepares a request; `params` is an object.
    pub(crate) fn prepare(&self, method: &str, params: &str) -> Result<PreparedRequest> {
        let params = match self.era {
            Era::Legacy => params.to_owned(),
            Era::Modern => {
                let open = params.strip_suffix('}').context("parameters are an object")?;
                let comma = if open.len() > 1 { "," } else { "" };
                format!(
                    r#"{open}{comma}"_meta":{{"io.modelcontextprotocol/protocolVersion":"{MODERN}","io.modelcontextprotocol/clientCapabilities":{{}},"io.modelcontextprotocol/clientInfo":{{"name":"bench","version":"1"}}}}}}"#
                )
            }
        };
        let before = r#"{"jsonrpc":"2.0","id":"#;
        let body = format!(r#"{before}{FIRST_ID},"method":"{method}","params":{params}}}"#);
        let named: BTreeMap<&str, &RawValue> = serde_json::from_str(&params)?;
        let name = named.get("name").map(|name| serde_json::from_str::<String>(name.get())).transpose()?;
        let bytes = self.post(method, name.as_deref(), &body);
        let id_at = bytes.len() - body.len() + before.len();
        Ok(PreparedRequest { bytes, id_at, reference: None })
    }

    /// Sends a prepared request with the next id.
    pub(crate) async fn send(&mut self, request: &mut PreparedRequest) -> Result<HttpResponse<'_>> {
        self.set_next_id(request)?;
        self.connection.exchange(&request.bytes).await
    }

    /// Sends a prepared request with the next id and checks the answer. Returns the time until `bytes` of its
    /// body had arrived.
    pub(crate) async fn time_to_body(
        &mut self,
        request: &mut PreparedRequest,
        bytes: usize,
        expected: &ExpectedResult,
    ) -> Result<Duration> {
        self.set_next_id(request)?;
        let started = Instant::now();
        let head = self.connection.begin_body(&request.bytes, bytes).await?;
        let took = started.elapsed();
        let received = self.connection.finish(head).await?;
        ensure!(received.status == 200, "HTTP {}: {}", received.status, text(received.body));
        expected.check(received.document()?, self.next_id)?;
        Ok(took)
    }

    fn set_next_id(&mut self, request: &mut PreparedRequest) -> Result<()> {
        self.next_id += 1;
        let id = self.next_id.to_string();
        let place = request.bytes.get_mut(request.id_at..request.id_at + DIGITS).context("an id")?;
        place.copy_from_slice(id.as_bytes());
        Ok(())
    }

    /// Sends a prepared request with the next id and checks the answer byte by byte: the first against the
    /// backend's result, further ones against the first, ids apart.
    pub(crate) async fn send_checked(
        &mut self,
        request: &mut PreparedRequest,
        expected: &ExpectedResult,
    ) -> Result<()> {
        let asked = self.next_id + 1;
        let mut reference = request.reference.take();
        let received = self.send(request).await?;
        ensure!(received.status == 200, "HTTP {}: {}", received.status, text(received.body));
        let document = received.document()?;
        if let Some((first, id_at)) = &reference {
            let (before, rest) = document.split_at_checked(*id_at).context("a shorter answer")?;
            let (id, after) = rest.split_at_checked(DIGITS).context("a shorter answer")?;
            let (as_before, as_after) = (first.get(..*id_at), first.get(id_at + DIGITS..));
            let same = Some(before) == as_before && Some(after) == as_after;
            ensure!(same, "another answer than the first: {}", text(document));
            ensure!(id == asked.to_string().as_bytes(), "the answer to another request");
        } else {
            let first = document.to_vec();
            expected.check(&first, asked)?;
            let id_at = memchr::memmem::find(&first, asked.to_string().as_bytes()).context("an id")?;
            reference = Some((first, id_at));
        }
        request.reference = reference;
        Ok(())
    }

    /// Sends a request; returns the document of the answer, which must carry a result.
    pub(crate) async fn request_result(&mut self, method: &str, params: &str) -> Result<Vec<u8>> {
        let mut request = self.prepare(method, params)?;
        let received = self.send(&mut request).await?;
        let document = received.document()?;
        let fine = received.status == 200 && memchr::memmem::find(document, br#""result":"#).is_some();
        ensure!(fine, "{method}: HTTP {} {}", received.status, text(document));
        Ok(document.to_vec())
    }

    /// Opens the stream of change notifications. The connection serves nothing else from now on.
    pub(crate) async fn open_change_stream(&mut self) -> Result<()> {
        let request = match &self.session {
            Some(session) => {
                let Endpoint { address, path } = &self.endpoint;
                format!(
                    "GET {path} HTTP/1.1\r\nhost: {address}\r\naccept: text/event-stream\r\n{}: {LEGACY}\r\n{}: {session}\r\n\r\n",
                    headers::PROTOCOL_VERSION,
                    headers::SESSION_ID
                )
                .into_bytes()
            }
            None => self.prepare(methods::LISTEN, r#"{"notifications":{"toolsListChanged":true}}"#)?.bytes,
        };
        self.connection.listen(&request).await
    }

    /// Waits for the next `list_changed` notification of the stream.
    pub(crate) async fn next_change(&mut self) -> Result<()> {
        loop {
            let line = self.connection.line().await?;
            if line.starts_with(b"data:") && memchr::memmem::find(line, b"list_changed").is_some() {
                return Ok(());
            }
        }
    }

    fn post(&self, method: &str, name: Option<&str>, body: &str) -> Vec<u8> {
        let Endpoint { address, path } = &self.endpoint;
        let mut request = format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\naccept: application/json, text/event-stream\r\ncontent-type: application/json\r\n"
        );
        let mut header = |key: &str, value: &str| request.extend([key, ": ", value, "\r\n"]);
        match (self.era, &self.session) {
            (Era::Modern, _) => {
                header(headers::PROTOCOL_VERSION, MODERN);
                header(headers::METHOD, method);
                if let Some(name) = name {
                    header(headers::NAME, name);
                }
            }
            (Era::Legacy, Some(session)) => {
                header(headers::PROTOCOL_VERSION, LEGACY);
                header(headers::SESSION_ID, session);
            }
            (Era::Legacy, None) => {}
        }
        header("content-length", &body.len().to_string());
        request.push_str("\r\n");
        request.push_str(body);
        request.into_bytes()
    }
}

impl ExpectedResult {
    /// Checks that a document answers request `id` with this result, as exactly as [`Exactness`] asks.
    fn check(&self, document: &[u8], id: u64) -> Result<()> {
        let response: Response<'_> = serde_json::from_slice(document)?;
        ensure!(response.id == id, "the answer to another request");
        let Some(result) = response.result else { bail!("no result: {}", text(document)) };
        if result.get() == self.result {
            return Ok(());
        }
        ensure!(self.exactness != Exactness::Same, "not what the backend sent: {}", text(document));
        let (mut found, mut wanted): (Members<'_>, Members<'_>) =
            (serde_json::from_str(result.get())?, serde_json::from_str(&self.result)?);
        for members in [&mut found, &mut wanted] {
            members.retain(|key, _| match self.exactness {
                Exactness::Content => *key == "content",
                _ => *key != "_meta",
            });
        }
        let same = found.len() == wanted.len()
            && wanted
                .iter()
                .all(|(key, value)| found.get(key).is_some_and(|found| found.get() == value.get()));
        ensure!(same, "not what the backend sent: {}", text(document));
        Ok(())
    }
}

/// Returns the first 300 bytes of a body, for an error message.
pub(crate) fn text(body: &[u8]) -> String {
    String::from_utf8_lossy(body.get(..300).unwrap_or(body)).into_owned()
}
