//! `/mcp` over HTTP: POST for both eras, GET (push stream) and DELETE (end of session) for legacy sessions.
//!
//! A POST passes, in this order: guard against DNS rebinding, media types, bounded body, JSON-RPC envelope,
//! era and headers, session. Each refusal has the HTTP status that the protocol asks for.

mod body;
pub(crate) mod guard;
mod refuse;
mod respond;

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request as HttpRequest, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use hyper::body::Incoming;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use vmcp_backend::RpcOutcome;
use vmcp_json::json_rope::JsonRope;
use vmcp_json::text;
use vmcp_wire::envelope::{Message, Notification, Request};
use vmcp_wire::era::Era;
use vmcp_wire::headers::RequestEra;
use vmcp_wire::headers::{self, Field, HeaderSource};
use vmcp_wire::params::Params;
use vmcp_wire::rpc;
use vmcp_wire::sealed::session::Session;
use vmcp_wire::{codes, methods};

use super::trace;
use crate::access::identity::Identity;
use crate::edge::push::streams;
use crate::edge::request::conversation::Conversation;
use crate::edge::request::edge::Edge;
use crate::edge::request::encoded_response::EncodedResponse;
use crate::edge::request::handshake;
use crate::edge::session::peer::Peer;
use crate::edge::session::sessions::OpenedSession;
use crate::engine::{Engine, Snapshot};
use guard::HostGuard;

const SESSION_ID: HeaderName = HeaderName::from_static(headers::SESSION_ID);

/// The handler of `/mcp`; cheap to clone, one clone a request.
#[derive(Clone)]
pub(crate) struct HttpTransport {
    edge: Arc<Edge>,
    guard: Arc<HostGuard>,
}

impl HttpTransport {
    /// Serves `edge` to clients that pass `guard`.
    pub(crate) fn new(edge: Arc<Edge>, guard: HostGuard) -> Self {
        Self { edge, guard: Arc::new(guard) }
    }

    /// Returns the engine behind the edge.
    pub(crate) fn engine(&self) -> &Engine {
        &self.edge.engine
    }

    /// Answers one HTTP request. A POST is read and checked by the one snapshot loaded here.
    pub(crate) async fn serve(self, request: HttpRequest<Incoming>) -> Response {
        if request.uri().path() != "/mcp" {
            return StatusCode::NOT_FOUND.into_response();
        }
        let snapshot = self.edge.engine.snapshot();
        if snapshot.bridge && snapshot.stands_for().is_none() {
            return refuse::not_up_yet();
        }
        match *request.method() {
            Method::POST => receive(&self, &snapshot, request).await,
            Method::GET => listen(&self, request.headers()),
            Method::DELETE => end(&self, request.headers()),
            _ => (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "POST, GET, DELETE")]).into_response(),
        }
    }
}

/// Request headers, as the protocol checks of `vmcp-wire` read them.
struct HttpHeaders<'a>(&'a HeaderMap);

impl HeaderSource for HttpHeaders<'_> {
    fn field(&self, name: &str) -> Field<'_> {
        let mut values = self.0.get_all(name).iter();
        match (values.next(), values.next()) {
            (None, _) => Field::Absent,
            (Some(value), None) => value.to_str().map_or(Field::Invalid, Field::One),
            _ => Field::Invalid,
        }
    }
}

/// Handles a POST: a request, a notification or the answer to a question.
async fn receive(transport: &HttpTransport, snapshot: &Snapshot, request: HttpRequest<Incoming>) -> Response {
    let (parts, body) = request.into_parts();
    if let Err(refused) = transport.guard.check(&parts.headers) {
        return refuse::forbidden(&refused);
    }
    if let Err(response) = refuse::media_types(&parts.headers) {
        return *response;
    }
    let config = &snapshot.config;
    let (limit, timeout) = (config.optimizer.limits.body_bytes, config.server.receive_timeout);
    let bytes = match body::read(body, limit, timeout).await {
        Ok(bytes) => bytes,
        Err(problem) => return refuse::body(&problem),
    };
    let message = match Message::parse(&bytes) {
        Ok(message) => message,
        Err(error) => return refuse::envelope(&error),
    };
    let era = match headers::classify(&HttpHeaders(&parts.headers), &message) {
        Ok(era) => era,
        Err(refusal) => return refuse::protocol(message.id(), &refusal),
    };
    let style = config.optimizer.tool_name_style;
    let peer = match &era {
        RequestEra::Modern(modern) => Peer::modern(modern, style),
        RequestEra::Legacy { params, .. } => {
            if let Message::Request(request) = &message
                && request.method == methods::INITIALIZE
            {
                return initialize(&transport.edge, request, params);
            }
            match session(&transport.edge, &parts.headers) {
                Ok(known) => Peer::legacy(&known, style, transport.edge.push.router.level(known.session.id)),
                Err(response) => return *response,
            }
        }
    };
    match &message {
        Message::Request(request) => {
            answer(&transport.edge, snapshot, peer, request, &era, &parts.headers, bytes.clone()).await
        }
        Message::Notification(notification) => {
            notified(&transport.edge, &peer, notification);
            StatusCode::ACCEPTED.into_response()
        }
        Message::Response(response) => {
            answered(&transport.edge, &peer, Some(response.id), RpcOutcome::result(response.result))
        }
        Message::Error(error) => answered(&transport.edge, &peer, error.id, RpcOutcome::error(error.error)),
    }
}

/// Handles `initialize`, which opens a session; its id goes into a response header.
fn initialize(edge: &Edge, request: &Request<'_>, params: &Params<'_>) -> Response {
    match handshake::initialize(edge, params) {
        Ok((_, id, result)) => {
            let mut response =
                respond::json(EncodedResponse::ok(rpc::response(request.id, JsonRope::from(result))));
            if let Ok(value) = HeaderValue::try_from(id) {
                response.headers_mut().insert(SESSION_ID, value);
            }
            response
        }
        Err(error) => respond::json(EncodedResponse::error(Era::Legacy, request.id, &error)),
    }
}

/// Handles a notification. Modern clients have no session, so theirs means nothing.
fn notified(edge: &Edge, peer: &Peer, notification: &Notification<'_>) {
    if let Some(session) = peer.session {
        edge.notified(session, notification);
    }
}

/// Hands the client's answer to the question it belongs to.
fn answered(edge: &Edge, peer: &Peer, id: Option<&RawValue>, outcome: RpcOutcome) -> Response {
    // An error without an id is about a message of vmcp that the client could not read; no task waits for it.
    let (Some(session), Some(id)) = (peer.session, id) else { return StatusCode::ACCEPTED.into_response() };
    match edge.questions.answer(session, id, outcome) {
        Ok(()) => StatusCode::ACCEPTED.into_response(),
        Err(problem) => {
            error_response(StatusCode::BAD_REQUEST, Some(id), codes::INVALID_REQUEST, &problem.to_string())
        }
    }
}

/// Answers a request with one JSON document or a stream of events.
async fn answer(
    edge: &Arc<Edge>,
    snapshot: &Snapshot,
    peer: Peer,
    request: &Request<'_>,
    era: &RequestEra<'_>,
    headers: &HeaderMap,
    bytes: Bytes,
) -> Response {
    let params = match era {
        RequestEra::Modern(modern) => &modern.params,
        RequestEra::Legacy { params, .. } => params,
    };
    if peer.era == Era::Modern {
        if request.method == methods::TOOLS_CALL
            && let Err(refusal) = check_param_headers(snapshot, peer.identity, headers, params)
        {
            return refuse::protocol(Some(request.id), &refusal);
        }
        if request.method == methods::LISTEN {
            let cancel = CancellationToken::new();
            let stream = streams::listen_stream(&edge.push, &peer, &params.object, request.id, cancel);
            return respond::stream(stream);
        }
    }
    let (trace, streams) = (trace::of_http(&params.meta, headers), refuse::accepts_streams(headers));
    let conversation = Conversation::begin(edge, peer, trace, (request, params), bytes, streams).await;
    respond::json_or_stream(conversation).await
}

/// Checks the `Mcp-Param-*` headers of `tools/call` against its arguments, by the tool definition that this
/// client was given.
fn check_param_headers(
    snapshot: &Snapshot,
    identity: Identity,
    headers: &HeaderMap,
    params: &Params<'_>,
) -> Result<(), rpc::Refusal> {
    let view = snapshot.view(identity);
    let Some(tool) = params.object.get_str("name").and_then(|name| view.tool(&name)) else {
        return Ok(());
    };
    let annotations = &tool.definition.param_headers;
    headers::check_param_headers(&HttpHeaders(headers), annotations, params.object.get("arguments"))
}

/// Handles GET: opens the push stream of a legacy session. Modern clients use `subscriptions/listen`.
fn listen(transport: &HttpTransport, headers: &HeaderMap) -> Response {
    if let Err(refused) = transport.guard.check(headers) {
        return refuse::forbidden(&refused);
    }
    if headers.get(&SESSION_ID).is_none() {
        return refuse::post_only();
    }
    if !refuse::accepts_streams(headers) {
        return (StatusCode::NOT_ACCEPTABLE, "the stream is text/event-stream; send it in Accept\n")
            .into_response();
    }
    match session(&transport.edge, headers) {
        Ok(known) => {
            let Session { id, expires, .. } = known.session;
            respond::stream(streams::session_stream(&transport.edge.push, id, expires))
        }
        Err(response) => *response,
    }
}

/// Handles DELETE: ends a legacy session.
fn end(transport: &HttpTransport, headers: &HeaderMap) -> Response {
    if let Err(refused) = transport.guard.check(headers) {
        return refuse::forbidden(&refused);
    }
    if headers.get(&SESSION_ID).is_none() {
        return refuse::post_only();
    }
    match session(&transport.edge, headers) {
        Ok(session) => {
            transport.edge.sessions.end(&session.session);
            transport.edge.push.end_session(session.session.id);
            StatusCode::OK.into_response()
        }
        Err(response) => *response,
    }
}

/// Returns the session named by the request's header, or the refusal.
fn session(edge: &Edge, headers: &HeaderMap) -> Result<Arc<OpenedSession>, Box<Response>> {
    let headers = HttpHeaders(headers);
    let Field::One(id) = headers.field(headers::SESSION_ID) else {
        return Err(Box::new(refuse::session_required()));
    };
    edge.sessions.get(&edge.ring(), id).map_err(|error| Box::new(refuse::session_not_found(&error)))
}

/// Encodes a JSON-RPC error with an HTTP status.
fn error_response(status: StatusCode, id: Option<&RawValue>, code: i64, message: &str) -> Response {
    let error = format!(r#"{{"code":{code},"message":{}}}"#, text::quoted(message));
    let body = rpc::error(id, JsonRope::from(error));
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}
