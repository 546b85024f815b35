//! [`McpService`]: `/mcp` over HTTP, the service inside the layers of the client port. POST for both eras,
//! GET (push stream) and DELETE (end of session) for legacy sessions.
//!
//! A POST passes, in this order: JSON-RPC envelope, era and headers, session. Each refusal has the HTTP
//! status that the protocol asks for.

pub(crate) mod activity;
pub(crate) mod arriving_event;
mod call_streams;
pub(crate) mod client_body;
mod coalesced;
pub(crate) mod exchange;
pub(crate) mod forward;
pub(crate) mod proof;
pub(crate) mod refuse;
pub(crate) mod request_permit;
pub(crate) mod respond;
pub(crate) mod stream_clock;
mod token_lifetime;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};
use serde_json::value::RawValue;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use vmcp_backend::{ClientInstance, RpcOutcome};
use vmcp_json::json_rope::JsonRope;
use vmcp_wire::era::{Era, Revision};
use vmcp_wire::headers::RequestEra;
use vmcp_wire::headers::{self, Field, HeaderSource as _};
use vmcp_wire::owned::{OwnedMessage, OwnedParams, OwnedRequest};
use vmcp_wire::rpc;
use vmcp_wire::sealed::KeyRing;
use vmcp_wire::sealed::session::Session;
use vmcp_wire::{codes, methods};

use super::request_headers::{RequestHeaders, came_through_proxy};
use super::trace;
use crate::push::streams;
use crate::request::conversation::{AcceptedMessages, Conversation, ConversationItem};
use crate::request::dispatch::operation::{self, Sender, begin_message};
use crate::request::edge::Edge;
use crate::request::encoded_response::EncodedResponse;
use crate::request::{dispatch, handshake};
use crate::session::client_instances::Origin;
use crate::session::connection_id::ConnectionId;
use crate::session::peer::Peer;
use crate::session::sessions::{OpenedSession, SessionLife, SessionNotFound};
use call_streams::CallStreams;
use exchange::{Received, Response, Service};
use refuse::error_response;
use token_lifetime::{StreamCredential, while_credentials_last};
use vmcp_engine::access::identity::Principal;
use vmcp_engine::access::outgoing;
use vmcp_engine::engine::Snapshot;
use vmcp_engine::random::now_millis;
use vmcp_engine::telemetry;
use vmcp_engine::telemetry::calls::{Action, ActionArea};
use vmcp_engine::telemetry::metrics::ServerSession;

const SESSION_ID: HeaderName = HeaderName::from_static(headers::SESSION_ID);
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Name of the request for a push stream, or for the rest of a call's stream, in `rateLimiting`.
const GET_STREAM: &str = "GET /mcp";
/// Time after which a call of a legacy client is answered by a stream, which can be resumed, though there is
/// no message yet.
const STREAM_AFTER: Duration = Duration::from_secs(2);

/// Serves messages of clients.
pub(crate) struct McpService {
    edge: Arc<Edge>,
    streams: Arc<CallStreams>,
}

impl McpService {
    /// Serves `edge` to clients.
    pub(crate) fn new(edge: Arc<Edge>) -> Self {
        let streams = CallStreams::new(edge.engine.byte_budget().clone(), edge.engine.metrics());
        Self { edge, streams }
    }
}

impl Service<Received> for McpService {
    async fn call(&self, request: Received) -> Response {
        match request.head.method {
            Method::POST => receive(self, request).await,
            // Boxed, as the detours of a POST: hyper moves the state of a request that it begins to serve.
            Method::GET => Box::pin(listen(self, request)).await,
            _ => end(self, &request.principal, &request.head.headers),
        }
    }
}

/// Handles a POST: a request, a notification or the answer to a question.
async fn receive(service: &McpService, request: Received) -> Response {
    let edge = &service.edge;
    let Received { head, mut principal, body: bytes, port, connection, snapshot } = request;
    let (ring, body) = (edge.ring(), bytes.clone());
    let forwarded = forward::forwarded_from(&ring, &head);
    principal.address = forwarded.or(principal.address);
    let port = port.filter(|_| forwarded.is_none());
    let config = &snapshot.config;
    let message = match OwnedMessage::parse(bytes) {
        Ok(message) => message,
        Err(error) => return refuse::envelope(&error),
    };
    let era = match headers::classify(&RequestHeaders(&head.headers), &message) {
        Ok(era) => era,
        Err(refusal) => return refuse::protocol(message.id(), &refusal),
    };
    let style = config.optimizer.tool_name_style;
    let mut peer = match (era, &message) {
        (RequestEra::Modern(revision), OwnedMessage::Request(request)) => {
            Peer::modern(revision, request.params(), style)
        }
        // Modern clients have no session, so that their notifications mean nothing; other messages of theirs
        // were refused.
        (RequestEra::Modern(_), _) => return respond::empty(StatusCode::ACCEPTED),
        (RequestEra::Legacy(_), message) => {
            if let OwnedMessage::Request(request) = message
                && request.method() == methods::INITIALIZE
            {
                // Boxed: rare, and its state is not that of a call.
                return Box::pin(initialize(edge, &snapshot, &principal, request, &head, port)).await;
            }
            match session(edge, &ring, &principal, &head.headers) {
                Ok(known) => Peer::legacy(&known, style, edge.push.router.level(known.session.id)),
                Err(response) => return *response,
            }
        }
    };
    peer.principal = principal;
    (peer.http_version, peer.port) = (version_label(head.version), port);
    if forwarded.is_none()
        && let Some(home) = forward::home_of(edge, &peer, &message)
        && let Some(response) = Box::pin(forward::send(edge, home, &head, body, &peer.principal)).await
    {
        return response;
    }
    if !config.passthrough_headers.is_empty() {
        peer.forwarded = Some(Arc::new(outgoing::allowed(
            &head.headers,
            &config.passthrough_headers,
            &peer.principal.identity,
        )));
    }
    if let (Era::Modern, OwnedMessage::Request(request)) = (peer.era, &message) {
        let is_direct = forwarded.is_none() && !came_through_proxy(&head.headers);
        peer.client.instance = instance(edge, &peer, request, is_direct.then_some(connection));
    }
    match message {
        OwnedMessage::Request(request) => {
            let identity = peer.principal.identity.clone();
            let mut response = answer(service, snapshot, peer, request, &head).await;
            if identity.as_known().is_some() && respond::is_stream(&response) {
                let credential = StreamCredential::of(&edge.engine, &head, &identity, None);
                response.body_mut().end_with(credential.withdrawn());
            }
            response
        }
        OwnedMessage::Notification(notification) => {
            let trace = trace::of_http(notification.params().meta(), &head.headers);
            let sender = Sender::from(&peer);
            let mut operation = begin_message(edge, &sender, notification.method(), None, &trace);
            if let Some(session) = peer.session {
                edge.notified(session, &notification);
            }
            operation.settle(None);
            respond::empty(StatusCode::ACCEPTED)
        }
        OwnedMessage::Response(response) => {
            answered(edge, &peer, Some(response.id()), RpcOutcome::result(response.result()))
        }
        OwnedMessage::Error(error) => answered(edge, &peer, error.id(), RpcOutcome::error(error.error())),
    }
}

/// Handles `initialize`, which opens a session; its id goes into a response header.
async fn initialize(
    edge: &Edge,
    snapshot: &Snapshot,
    principal: &Principal,
    request: &OwnedRequest,
    head: &Parts,
    port: Option<u16>,
) -> Response {
    let sender = Sender {
        revision: handshake::negotiated(request.params()),
        transport: telemetry::TCP,
        http_version: version_label(head.version),
        session: None,
        address: principal.address,
        port,
    };
    let trace = trace::of_http(request.params().meta(), &head.headers);
    let mut operation = begin_message(edge, &sender, methods::INITIALIZE, Some(request.id()), &trace);
    edge.engine.learn_legacy_capabilities().await;
    if let Err(limited) = dispatch::within_rate(snapshot, principal, methods::INITIALIZE, "").await {
        operation::settle(&mut operation, Err(&limited));
        return refuse::later(StatusCode::TOO_MANY_REQUESTS, &limited.message);
    }
    edge.engine.prepare(&edge.engine.snapshot(), principal).await;
    let opened = handshake::initialize(edge, principal, request.params());
    operation::settle(&mut operation, opened.as_ref().map(|_| ()));
    match opened {
        Ok((session, id, result)) => {
            operation.span().text("mcp.session.id", &hex::encode(session.id));
            let mut response =
                respond::json(EncodedResponse::ok(rpc::response(request.id(), JsonRope::from(result))));
            if let Ok(value) = HeaderValue::try_from(id) {
                response.headers_mut().insert(SESSION_ID, value);
            }
            response
        }
        Err(error) => respond::json(EncodedResponse::error(Era::Legacy, request.id(), &error)),
    }
}

/// Returns `network.protocol.version` of OpenTelemetry.
fn version_label(version: Version) -> Option<&'static str> {
    match version {
        Version::HTTP_10 => Some("1.0"),
        Version::HTTP_11 => Some("1.1"),
        Version::HTTP_2 => Some("2"),
        _ => None,
    }
}

/// Returns the running copy of the client's program that sent the request.
fn instance(
    edge: &Edge,
    peer: &Peer,
    request: &OwnedRequest,
    connection: Option<ConnectionId>,
) -> ClientInstance {
    let (principal, info) = (peer.principal.key(), peer.client.info.as_deref().map(RawValue::get));
    let origin = Origin { principal, info, id: request.id().get(), connection };
    let placed = edge.instances.place(origin, Instant::now());
    if let Some(ended) = placed.ended {
        edge.engine.snapshot().backends.values().for_each(|backend| backend.end_instance(ended));
    }
    placed.instance
}

/// Hands the client's answer to the question it belongs to.
fn answered(edge: &Edge, peer: &Peer, id: Option<&RawValue>, outcome: RpcOutcome) -> Response {
    // An error without an id is about a message of vmcp that the client could not read; no task waits for it.
    let (Some(session), Some(id)) = (peer.session, id) else { return respond::empty(StatusCode::ACCEPTED) };
    match edge.questions.answer(session, id, outcome) {
        Ok(()) => respond::empty(StatusCode::ACCEPTED),
        Err(problem) => {
            error_response(StatusCode::BAD_REQUEST, Some(id), codes::INVALID_REQUEST, &problem.to_string())
        }
    }
}

/// Answers a request with one JSON document or a stream of events.
async fn answer(
    service: &McpService,
    snapshot: Arc<Snapshot>,
    peer: Peer,
    request: OwnedRequest,
    head: &Parts,
) -> Response {
    let (edge, headers) = (&service.edge, &head.headers);
    let snapshot = edge.engine.for_session(snapshot, peer.session).await;
    edge.engine.prepare(&snapshot, &peer.principal).await;
    if peer.era == Era::Modern {
        if request.method() == methods::TOOLS_CALL
            && let Err(refusal) = check_param_headers(&snapshot, &peer.principal, headers, request.params())
        {
            return refuse::protocol(Some(request.id()), &refusal);
        }
        if request.method() == methods::LISTEN {
            if !refuse::accepts_streams(headers) {
                return refuse::streams_only();
            }
            let trace = trace::of_http(request.params().meta(), headers);
            let sender = Sender::from(&peer);
            let mut operation = begin_message(edge, &sender, methods::LISTEN, Some(request.id()), &trace);
            if let Err(limited) = dispatch::within_rate(&snapshot, &peer.principal, methods::LISTEN, "").await
            {
                operation::settle(&mut operation, Err(&limited));
                return refuse::later(StatusCode::TOO_MANY_REQUESTS, &limited.message);
            }
            let cancel = CancellationToken::new();
            let stream = streams::listen_stream(&edge.push, &peer, request.params(), request.id(), cancel);
            // It ends with the acknowledgment.
            let stream = operation::until_first_message(stream, operation);
            let credential = StreamCredential::of(&edge.engine, head, &peer.principal.identity, None);
            return respond::stream(while_credentials_last(stream, credential));
        }
    }
    let trace = trace::of_http(request.params().meta(), headers);
    let takes = AcceptedMessages { messages: refuse::accepts_streams(headers), arriving: true };
    let resumes = peer.session.filter(|_| peer.era == Era::Legacy && takes.messages);
    let resumes =
        resumes.map(|session| (session, peer.principal.key(), peer.revision, request.id().to_owned()));
    let mut conversation = Conversation::begin(edge, snapshot, peer, trace, request, takes).await;
    let Some((session, principal, revision, id)) = resumes else {
        return respond::json_or_stream(conversation).await;
    };
    // A client that loses its connection resumes by the id of an event, so that a long call needs one soon.
    let first = match timeout(STREAM_AFTER, conversation.next()).await {
        Ok(Some(ConversationItem::Message(message))) => Some(message),
        Ok(Some(ConversationItem::Answer(answer))) => return respond::json(answer),
        Ok(None) => return respond::json(EncodedResponse::internal_error()),
        Err(_) => None,
    };
    match service.streams.begin(session, principal, &id, edge.home(), conversation) {
        Ok(stream) => {
            let begin = match first {
                Some(message) => Some(stream.log(&message)),
                None => (revision >= Revision::V2025_11_25).then(|| stream.log(b"")),
            };
            respond::resumable(begin.into_iter().collect(), stream)
        }
        Err(conversation) => respond::events(first, *conversation),
    }
}

/// Checks the `Mcp-Param-*` headers of `tools/call` against its arguments, by the tool definition that this
/// client was given.
fn check_param_headers(
    snapshot: &Snapshot,
    principal: &Principal,
    headers: &HeaderMap,
    params: &OwnedParams,
) -> Result<(), rpc::Refusal> {
    let view = snapshot.view(principal);
    let Some(tool) = params.get_str("name").and_then(|name| view.tool(&name)) else {
        return Ok(());
    };
    let annotations = &tool.definition.param_headers;
    headers::check_param_headers(&RequestHeaders(headers), annotations, params.get("arguments"))
}

/// Handles GET: opens the push stream of a legacy session, or resumes the stream of a call. Modern clients
/// use `subscriptions/listen`.
async fn listen(service: &McpService, request: Received) -> Response {
    let edge = &service.edge;
    let Received { head, mut principal, snapshot, .. } = request;
    let headers = &head.headers;
    let ring = edge.ring();
    let forwarded = forward::forwarded_from(&ring, &head);
    principal.address = forwarded.or(principal.address);
    if headers.get(&SESSION_ID).is_none() {
        return refuse::post_only();
    }
    if !refuse::accepts_streams(headers) {
        return refuse::streams_only();
    }
    // The replica that hands a request on has counted it.
    if forwarded.is_none()
        && let Err(limited) = dispatch::within_rate(&snapshot, &principal, GET_STREAM, "").await
    {
        return refuse::later(StatusCode::TOO_MANY_REQUESTS, &limited.message);
    }
    match session(edge, &ring, &principal, headers) {
        Ok(known) => {
            let id = known.session.id;
            if let Some(last) = headers.get(&LAST_EVENT_ID) {
                let last = last.to_str().unwrap_or_default();
                let problem = match service.streams.resume(id, last) {
                    Ok(events) => {
                        let identity = &principal.identity;
                        let credential = StreamCredential::of(&edge.engine, &head, identity, None);
                        return respond::resumed(events.take_until(credential.withdrawn()));
                    }
                    Err(problem) => problem.to_string(),
                };
                let elsewhere = forward::resumption(edge, &head, last, &principal).await;
                return elsewhere.unwrap_or_else(|| {
                    error_response(StatusCode::BAD_REQUEST, None, codes::INVALID_REQUEST, &problem)
                });
            }
            let stream =
                streams::session_stream(&edge.push, id, &principal, SessionLife::from(&known.session));
            let began = Some(known.session.began);
            let credential = StreamCredential::of(&edge.engine, &head, &principal.identity, began);
            respond::stream(while_credentials_last(stream, credential))
        }
        Err(response) => *response,
    }
}

/// Handles DELETE: ends a legacy session.
fn end(service: &McpService, principal: &Principal, headers: &HeaderMap) -> Response {
    let edge = &service.edge;
    if headers.get(&SESSION_ID).is_none() {
        return refuse::post_only();
    }
    match session(edge, &edge.ring(), principal, headers) {
        Ok(session) => {
            let Session { id, expires, began, revision, .. } = session.session;
            let lived = Duration::from_millis(now_millis().saturating_sub(began));
            let ended =
                ServerSession { network_transport: telemetry::TCP, mcp_protocol_version: revision.as_str() };
            edge.engine.metrics().count_server_session(&ended, lived);
            edge.engine.call_observers().acted(&Action {
                session: Some(id),
                ..Action::of_client(ActionArea::Session, "session.end", principal)
            });
            edge.push.router.end(id, principal.key(), expires);
            edge.push.end_session(id);
            edge.in_flight.cancel_session(session.session.id);
            service.streams.end_session(session.session.id);
            respond::empty(StatusCode::OK)
        }
        Err(response) => *response,
    }
}

/// Returns the session named by the request's header, or the refusal.
fn session(
    edge: &Edge,
    ring: &Arc<KeyRing>,
    principal: &Principal,
    headers: &HeaderMap,
) -> Result<Arc<OpenedSession>, Box<Response>> {
    let headers = RequestHeaders(headers);
    let Field::One(id) = headers.field(headers::SESSION_ID) else {
        return Err(Box::new(refuse::session_required()));
    };
    let known = edge.sessions.get(ring, principal, id).and_then(|known| {
        let newest = edge.engine.snapshot();
        let revocations = newest.authentication.revocations();
        let has_ended = edge.push.router.sessions.has_ended(known.session.id)
            || revocations.refuses_session(&principal.identity, known.session.began);
        if has_ended { Err(SessionNotFound::Ended) } else { Ok(known) }
    });
    known.map_err(|error| {
        if error == SessionNotFound::OfAnotherIdentity {
            // The session goes on: ending it would let whoever has seen its id end the victim's work.
            let (subject, address) = (principal.identity.subject(), principal.address);
            tracing::warn!(subject, ?address, "session id of another identity presented; it was refused");
        }
        Box::new(refuse::session_not_found(&error))
    })
}
