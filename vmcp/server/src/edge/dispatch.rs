//! From a request to its answer, whatever carried it.

use serde_json::value::RawValue;
use tracing::Instrument as _;
use vmcp_wire::codes;
use vmcp_wire::envelope::{Message, Request};
use vmcp_wire::era::Era;
use vmcp_wire::methods;
use vmcp_wire::pages::List;
use vmcp_wire::params::Params;
use vmcp_wire::pieces::Pieces;
use vmcp_wire::rpc::{self, RpcError};
use vmcp_wire::splice::Spliced;
use vmcp_wire::subject;
use vmcp_wire::translate::{self, ResultPlan, TranslateError};

use super::Edge;
use super::handshake::{self, SERVER_INFO};
use super::lists;
use super::peer::Peer;
use crate::route::{self, Answer, Caller};
use crate::telemetry::traces;

/// An answer, ready to be sent.
#[derive(Debug)]
pub(super) struct Handled {
    /// The HTTP status; stdio has none.
    pub(super) status: u16,
    /// The JSON-RPC response.
    pub(super) body: Pieces,
}

impl Handled {
    pub(super) fn ok(body: impl Into<Pieces>) -> Self {
        Self { status: 200, body: body.into() }
    }

    /// An error of ours. The modern era has HTTP statuses for some.
    pub(super) fn error(era: Era, id: &RawValue, error: &RpcError) -> Self {
        let status = match (era, error.code) {
            (Era::Modern, codes::METHOD_NOT_FOUND) => 404,
            (Era::Modern, codes::HEADER_MISMATCH | codes::MISSING_CLIENT_CAPABILITY) => 400,
            _ => 200,
        };
        Self { status, body: rpc::error(Some(id), Spliced::from(error.to_json())).into() }
    }
}

/// What a client gets when something of ours broke that cannot break.
pub(super) fn internal_error() -> Handled {
    tracing::error!("a request ended without an answer");
    let error = RpcError::new(codes::INTERNAL_ERROR, "internal error; see the server's log");
    Handled { status: 500, body: rpc::error(None, Spliced::from(error.to_json())).into() }
}

/// Runs one request to its end, in a span of its own, within the reach of `notifications/cancelled`.
pub(super) async fn run(edge: &Edge, peer: &Peer, caller: Caller, message: &[u8]) -> Handled {
    let Ok(Message::Request(request)) = Message::parse(message) else { return internal_error() };
    let Ok(params) = Params::parse(request.params) else { return internal_error() };
    let name = subject::get(&request.method, &params.object).unwrap_or_default();
    let span = tracing::info_span!(
        "request",
        otel.name = %format_args!("{} {name}", request.method),
        otel.kind = "server",
        mcp.method = %request.method,
        mcp.protocol_version = peer.revision.as_str(),
    );
    traces::continue_trace(&span, &caller.trace);
    let caller = Caller { trace: traces::outgoing(&span, &caller.trace), ..caller };
    // A client that closes the connection drops this future; the backend is told.
    let _cancelled_when_dropped = caller.cancel.clone().drop_guard();
    let _entered = peer.session.map(|session| edge.in_flight.enter(session, request.id, &caller.cancel));
    handle(edge, peer, &request, &params, &caller).instrument(span).await
}

/// Answers every request but `initialize` and `subscriptions/listen`, which belong to their transports.
async fn handle(
    edge: &Edge,
    peer: &Peer,
    request: &Request<'_>,
    params: &Params<'_>,
    caller: &Caller,
) -> Handled {
    let method = request.method.as_ref();
    let refuse = |error: RpcError| Handled::error(peer.era, request.id, &error);
    if !methods::exists(method, peer.era) {
        return refuse(unknown_method(method));
    }
    if let Some(list) = List::of_method(method) {
        return match lists::page(&edge.engine.snapshot(), peer, list, &params.object) {
            Ok(page) => Handled::ok(rpc::response_around(request.id, page)),
            Err(error) => refuse(error),
        };
    }
    let none = RawValue::from_string("{}".to_owned()).unwrap_or_default();
    let raw = request.params.unwrap_or(&none);
    let answer = match method {
        methods::PING => return Handled::ok(rpc::response(request.id, "{}")),
        methods::DISCOVER => {
            return Handled::ok(rpc::response(request.id, Spliced::from(handshake::discover(edge))));
        }
        methods::TOOLS_CALL => route::call_tool(&edge.engine, caller, raw).await,
        methods::RESOURCES_READ => route::read_resource(&edge.engine, caller, raw).await,
        methods::PROMPTS_GET => route::get_prompt(&edge.engine, caller, raw).await,
        methods::COMPLETE => route::complete(&edge.engine, caller, raw).await,
        _ => return refuse(unknown_method(method)),
    };
    finish(peer, request, params, &answer)
}

/// The answer in the terms of the client's era.
fn finish(peer: &Peer, request: &Request<'_>, params: &Params<'_>, answer: &Answer) -> Handled {
    let method = request.method.as_ref();
    let translated = match &answer.outcome {
        Ok(result) => {
            let plan = ResultPlan {
                from: answer.era,
                to: peer.era,
                server_info: (peer.era == Era::Modern).then_some(SERVER_INFO),
                ..ResultPlan::default()
            };
            let forwarded =
                result.received().and_then(|received| translate::forward(method, received, &plan));
            if let Some(result) = forwarded {
                return Handled::ok(rpc::response_around(request.id, result));
            }
            translate::result(method, result, &plan).map(|result| rpc::response(request.id, result))
        }
        Err(error) => {
            let uri = subject::get(method, &params.object);
            translate::error(method, error, answer.era, peer.era, uri.as_deref())
                .map(|error| rpc::error(Some(request.id), error))
        }
    };
    match translated {
        Ok(body) => Handled::ok(body),
        Err(problem) => Handled::error(peer.era, request.id, &untranslatable(&problem)),
    }
}

fn untranslatable(problem: &TranslateError) -> RpcError {
    let message = match problem {
        TranslateError::NotComplete(kind) if kind == "input_required" => {
            "the tool needs input from the user, which this server cannot relay to a client of this revision"
                .to_owned()
        }
        other => other.to_string(),
    };
    RpcError::new(codes::INTERNAL_ERROR, message)
}

fn unknown_method(method: &str) -> RpcError {
    // The name is the client's own text: shown, but not without bound.
    let shown: String = method.chars().take(128).collect();
    RpcError::new(codes::METHOD_NOT_FOUND, format!("method not found: {shown}"))
}
