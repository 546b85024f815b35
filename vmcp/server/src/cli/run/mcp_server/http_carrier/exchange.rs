//! [`Endpoint`]: one exchange over HTTP, from a line of the client to the lines of the answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use vmcp_config::Secret;
use vmcp_json::json_rope::JsonRope;
use vmcp_wire::era::Revision;
use vmcp_wire::owned::{OwnedMessage, OwnedRequest};
use vmcp_wire::rpc::RpcError;
use vmcp_wire::sse::{Decoder, EventFields, Part};
use vmcp_wire::{codes, headers, methods, rpc};

use super::super::server_link::MAX_LINE;
use super::legacy_session::LegacySession;
use super::param_headers::ParamHeaders;

/// Time to connect to the forwarded port, which is on this machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for the end of a session; beyond it, the server forgets the idle session by itself.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause before a stream of pushed messages is opened again.
const PUSH_PAUSE: Duration = Duration::from_secs(1);
/// Characters of a refusal that the client is shown.
const MAX_REFUSAL: usize = 300;
const EVENT_STREAM: &str = "text/event-stream";

/// The server went away, or has lost the session: this connection is of no further use.
#[derive(Debug)]
pub(super) struct ConnectionLost;

/// A line of the client, on its way.
pub(super) struct Outgoing {
    line: Bytes,
    /// The request; `None` for a message without an answer.
    request: Option<OwnedRequest>,
    /// Revision of a modern request.
    revision: Option<Revision>,
}

impl Outgoing {
    /// A message without an answer.
    pub(super) fn message(line: Bytes) -> Outgoing {
        Outgoing { line, request: None, revision: None }
    }

    /// A request; `revision`: of a modern client.
    pub(super) fn request(line: Bytes, request: OwnedRequest, revision: Option<Revision>) -> Outgoing {
        Outgoing { line, request: Some(request), revision }
    }
}

/// An endpoint, with the state of one client's connection to it.
pub(super) struct Endpoint {
    http: reqwest::Client,
    url: String,
    token: Option<Secret>,
    incoming: mpsc::Sender<Bytes>,
    session: LegacySession,
    param_headers: ParamHeaders,
}

impl Endpoint {
    pub(super) fn new(
        url: String,
        token: Option<Secret>,
        incoming: mpsc::Sender<Bytes>,
    ) -> reqwest::Result<Endpoint> {
        // The port is on this machine: no proxy of the environment may come between.
        let http = reqwest::Client::builder().no_proxy().connect_timeout(CONNECT_TIMEOUT).build()?;
        let (session, param_headers) = (LegacySession::default(), ParamHeaders::default());
        Ok(Endpoint { http, url, token, incoming, session, param_headers })
    }

    /// Sends a line, and delivers its answer.
    pub(super) async fn exchange(&self, outgoing: Outgoing) -> Result<(), ConnectionLost> {
        let Outgoing { line, request, revision } = outgoing;
        let post = self.prepare(Method::POST, self.headers_of(request.as_ref(), revision));
        let post = post.header(header::CONTENT_TYPE, "application/json").body(line);
        let answer = post.send().await.map_err(|_| ConnectionLost)?;
        let status = answer.status();
        if status == StatusCode::NOT_FOUND && revision.is_none() && self.session.has_id() {
            return Err(ConnectionLost);
        }
        // A message without an answer may be refused; its sender would not hear of it anyway.
        let Some(request) = request else { return Ok(()) };
        let head = answer.headers().clone();
        if status.is_success() && is_stream(&head) {
            return self.deliver_events(answer, &request, &head).await;
        }
        let body = whole(answer).await.ok_or(ConnectionLost)?;
        if self.deliver(&body, Some((&request, &head))).await {
            return Ok(());
        }
        self.say_refusal(&request, status, &body).await;
        Ok(())
    }

    /// Receives what the server of a legacy session sends outside of answers, as long as it lets us.
    pub(super) async fn receive_pushed(self: Arc<Self>) {
        let mut last_event: Option<HeaderValue> = None;
        loop {
            let mut headers = self.session.headers();
            if let Some(id) = last_event.clone() {
                headers.insert(headers::LAST_EVENT_ID, id);
            }
            let get = self.prepare(Method::GET, headers);
            if let Ok(mut answer) = get.send().await {
                if !answer.status().is_success() || !is_stream(answer.headers()) {
                    return;
                }
                let mut events = Events::new();
                while let Ok(Some((event, id))) = events.next(&mut answer).await {
                    self.deliver(&event, None).await;
                    last_event = id.and_then(|id| HeaderValue::from_str(&id).ok()).or(last_event);
                }
            }
            tokio::time::sleep(PUSH_PAUSE).await;
        }
    }

    /// Ends a legacy session.
    pub(super) async fn end_session(&self) {
        if self.session.has_id() {
            // The session ends by itself, too.
            let _ = self.prepare(Method::DELETE, self.session.headers()).timeout(END_TIMEOUT).send().await;
        }
    }

    fn prepare(&self, method: Method, headers: HeaderMap) -> RequestBuilder {
        let accepted = format!("application/json, {EVENT_STREAM}");
        let accepted = if method == Method::GET { EVENT_STREAM.to_owned() } else { accepted };
        let request = self.http.request(method, &self.url).headers(headers).header(header::ACCEPT, accepted);
        match &self.token {
            Some(token) => request.bearer_auth(token.expose()),
            None => request,
        }
    }

    fn headers_of(&self, request: Option<&OwnedRequest>, revision: Option<Revision>) -> HeaderMap {
        let (Some(request), Some(revision)) = (request, revision) else { return self.session.headers() };
        let subject = request.subject();
        let standard = headers::build(revision, request.method(), subject.as_deref()).into_iter();
        let standard = standard.map(|(name, value)| (name.to_owned(), value));
        let is_call = request.method() == methods::TOOLS_CALL;
        let of_arguments = if is_call { self.param_headers.of_call(request) } else { Vec::new() };
        // A value that no header can have is refused by the server, in its words.
        let pair = |(name, value): (String, String)| {
            Some((http::HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_str(&value).ok()?))
        };
        standard.chain(of_arguments).filter_map(pair).collect()
    }

    async fn deliver_events(
        &self,
        mut answer: Response,
        request: &OwnedRequest,
        head: &HeaderMap,
    ) -> Result<(), ConnectionLost> {
        let mut events = Events::new();
        while let Some((event, _)) = events.next(&mut answer).await? {
            if self.deliver(&event, Some((request, head))).await {
                return Ok(());
            }
        }
        // The stream broke off before the answer.
        Err(ConnectionLost)
    }

    /// Delivers a message of the server; returns true for the answer to `request`. An unreadable body, and a
    /// refusal that names no request, are not delivered.
    async fn deliver(&self, message: &Bytes, request: Option<(&OwnedRequest, &HeaderMap)>) -> bool {
        let Ok(parsed) = OwnedMessage::parse(message.clone()) else { return false };
        let is_answer = match &parsed {
            OwnedMessage::Response(response) => {
                let answered = request.filter(|(request, _)| request.id().get() == response.id().get());
                match answered.map(|(request, head)| (request.method(), head)) {
                    Some((methods::INITIALIZE, head)) => self.session.begin(head, response.result().get()),
                    Some((methods::TOOLS_LIST, _)) => self.param_headers.learn(response.result()),
                    _ => {}
                }
                answered.is_some()
            }
            OwnedMessage::Error(error) => {
                let id = error.id().map(RawValue::get);
                let is_answer = request.is_some_and(|(request, _)| id == Some(request.id().get()));
                if !is_answer {
                    return false;
                }
                true
            }
            OwnedMessage::Request(_) | OwnedMessage::Notification(_) => false,
        };
        // A failure means that the relay is gone, which ends this task as well.
        let has_breaks = message.iter().any(|byte| matches!(byte, b'\n' | b'\r'));
        let line = if has_breaks { rpc::single_line(message.to_vec()).into() } else { message.clone() };
        let _ = self.incoming.send(line).await;
        is_answer
    }

    /// Answers a request that the server refused without an answer of the protocol.
    pub(super) async fn say_refusal(&self, request: &OwnedRequest, status: StatusCode, body: &[u8]) {
        let text: String = String::from_utf8_lossy(body).trim().chars().take(MAX_REFUSAL).collect();
        let remedy = if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            "; give vmcp mcp-server a key or token that spec.incomingAuth takes, by VMCP_TOKEN"
        } else {
            ""
        };
        let error =
            RpcError::new(codes::INTERNAL_ERROR, format!("the server answers {status}: {text}{remedy}"));
        let message = rpc::error(Some(request.id()), JsonRope::from(error.to_json()));
        let _ = self.incoming.send(message.into()).await;
    }
}

fn is_stream(head: &HeaderMap) -> bool {
    let kind = head.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with(EVENT_STREAM))
}

/// Returns a body of at most [`MAX_LINE`] bytes; `None` for a longer one, or if the connection breaks.
async fn whole(mut answer: Response) -> Option<Bytes> {
    let mut body = Vec::new();
    while let Some(piece) = answer.chunk().await.ok()? {
        if body.len() + piece.len() > MAX_LINE {
            return None;
        }
        body.extend_from_slice(&piece);
    }
    Some(body.into())
}

/// The events of an answer, of at most [`MAX_LINE`] bytes each.
struct Events {
    decoder: Decoder,
    piece: Bytes,
    data: Vec<u8>,
}

impl Events {
    fn new() -> Events {
        Events { decoder: Decoder::new(MAX_LINE), piece: Bytes::new(), data: Vec::new() }
    }

    /// Returns the next event with data, and its id; `None` at the end of the stream.
    async fn next(
        &mut self,
        answer: &mut Response,
    ) -> Result<Option<(Bytes, Option<String>)>, ConnectionLost> {
        loop {
            while let Some(part) = self.decoder.next(&mut self.piece).map_err(|_| ConnectionLost)? {
                match part {
                    Part::Data(bytes) => self.data.extend_from_slice(&bytes),
                    Part::End(EventFields { id, .. }) => {
                        let data = std::mem::take(&mut self.data);
                        if !data.is_empty() {
                            return Ok(Some((data.into(), id)));
                        }
                    }
                }
            }
            match answer.chunk().await {
                Ok(Some(piece)) => self.piece = piece,
                Ok(None) => return Ok(None),
                Err(_) => return Err(ConnectionLost),
            }
        }
    }
}
