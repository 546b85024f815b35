//! Dispatches a request to its handler by method, and encodes the answer in the terms of the client's era.

pub(crate) mod operation;

use std::borrow::Cow;
use std::pin::pin;

use serde_json::value::RawValue;
use vmcp_json::json_rope::JsonRope;
use vmcp_json::object::Object;
use vmcp_json::text;
use vmcp_wire::era::{Era, Revision};
use vmcp_wire::handshake::client_capabilities::{self, AnswerableQuestions};
use vmcp_wire::keys::{INPUT_REQUESTS, REQUEST_STATE};
use vmcp_wire::lists::pages::List;
use vmcp_wire::owned::OwnedRequest;
use vmcp_wire::payload::Payload;
use vmcp_wire::rpc::{self, RpcError};
use vmcp_wire::sealed::request_state::{Continuation, STATE_LIFETIME};
use vmcp_wire::translate::{self, ResultPlan, ResultType, TranslateError};
use vmcp_wire::{codes, methods};

use super::arriving_response::ArrivingResponse;
use super::client_state::relayed_state::{RelayedState, binding};
use super::edge::Edge;
use super::encoded_response::EncodedResponse;
use super::{first_start, handshake, lists, log_level};
use crate::push::subscriptions;
use crate::session::peer::Peer;
use vmcp_access::rate_limit::Limited;
use vmcp_engine::access::identity::Principal;
use vmcp_engine::engine::Snapshot;
use vmcp_engine::optim::names::{OwnName, own_name};
use vmcp_engine::random::{now, random};
use vmcp_engine::telemetry::calls::{Action, ActionArea, Refusal};
use vmcp_engine::telemetry::operations::OperationFailure;
use vmcp_engine::telemetry::traces::{self, IncomingTrace, TraceSpan};
use vmcp_route::{Answer, CallContext, Caller, Consent, Content, StepUp};

/// HTTP status of a request beyond a rate.
const TOO_MANY_REQUESTS: u16 = 429;
/// HTTP status of a request whose token lacks scopes.
const FORBIDDEN: u16 = 403;
/// Methods that are relayed to the backend of their task.
const TASK_METHODS: [&str; 4] =
    [methods::TASKS_GET, methods::TASKS_RESULT, methods::TASKS_UPDATE, methods::TASKS_CANCEL];

/// A request with everything that its handling reads.
#[derive(Clone, Copy)]
pub(super) struct Dispatch<'a> {
    pub(super) edge: &'a Edge,
    /// The snapshot that the whole request reads.
    pub(super) snapshot: &'a Snapshot,
    pub(super) peer: &'a Peer,
    pub(super) request: &'a OwnedRequest,
}

impl Dispatch<'_> {
    /// Runs the request to its end, in a span of its own and cancellable by `notifications/cancelled`.
    pub(super) async fn run(
        self,
        caller: Caller,
        trace: IncomingTrace,
        continues: Option<RelayedState>,
    ) -> EncodedResponse {
        let subject = self.request.subject();
        let mut operation = operation::begin(self, subject.as_deref(), &trace);
        let span = operation.span();
        let trace_id = traces::trace_of(span, &trace.context);
        let caller = Caller { trace: trace.context, trace_id, ..caller };
        let mut response = self.run_traced(caller, continues, subject, span).await;
        let failure = response.failure.take();
        match response.rest.take() {
            Some(rest) => response.rest = Some(rest.measured(operation)),
            None => operation.settle(failure),
        }
        response
    }

    /// Runs the request in its span.
    async fn run_traced(
        self,
        caller: Caller,
        continues: Option<RelayedState>,
        subject: Option<Cow<'_, str>>,
        span: &TraceSpan,
    ) -> EncodedResponse {
        let Self { edge, snapshot, peer, request } = self;
        // A client that closes its connection drops this future; the guard then cancels the call at the
        // backend.
        let cancelled_when_dropped = caller.cancel.clone().drop_guard();
        // Weights name tools: prompts and URIs have names that clients make up.
        let tool = subject.filter(|_| request.method() == methods::TOOLS_CALL);
        let name = tool.unwrap_or_default();
        if let Err(limited) = within_rate(snapshot, &caller.principal, request.method(), &name).await {
            refused(edge, peer, request, &limited.message);
            return EncodedResponse { status: TOO_MANY_REQUESTS, ..self.refuse(&limited) };
        }
        let entered = peer.session.map(|session| edge.in_flight.enter(session, request.id(), &caller.cancel));
        if let Some(Err(limit)) = entered {
            return self.refuse(&limit.into());
        }
        let mut response = traces::in_span(pin!(self.handle(&caller, continues)), span).await;
        // A response on the way stays cancellable until it has ended.
        response.rest = response.rest.map(|rest| rest.keep((entered, cancelled_when_dropped)));
        response
    }

    /// Answers any request except `initialize` and `subscriptions/listen`, which their transports handle.
    async fn handle(self, caller: &Caller, continues: Option<RelayedState>) -> EncodedResponse {
        let Self { edge, peer, request, .. } = self;
        let method = request.method();
        if !methods::exists(method, peer.era) {
            refused(edge, peer, request, "unknown method");
            return self.refuse(&RpcError::method_not_found(method));
        }
        match first_start::newer_snapshot(edge, peer, request).await {
            Some(fresh) => Dispatch { snapshot: &fresh, ..self }.answer(caller, continues).await,
            None => self.answer(caller, continues).await,
        }
    }

    /// Answers a request whose method exists, by the snapshot of this dispatch.
    async fn answer(self, caller: &Caller, continues: Option<RelayedState>) -> EncodedResponse {
        let Self { edge, snapshot, peer, request } = self;
        let (method, params) = (request.method(), request.params());
        if let Some(list) = List::of_method(method) {
            return self.answer_list(list);
        }
        // Replaces the sealed state by the backend's own.
        let state = continues.as_ref().map(|relayed| text::quoted(&relayed.state));
        let carried = state.and_then(|state| params.with(&[(REQUEST_STATE, Some(&state))]).ok());
        let raw = carried.as_ref().unwrap_or(params);
        let has_tasks = peer.revision >= Revision::V2025_11_25;
        let view = snapshot.view(&caller.principal);
        let context = CallContext { engine: &edge.engine, snapshot, view: &view, caller };
        let answer = match method {
            methods::PING => return EncodedResponse::ok(rpc::response(request.id(), "{}")),
            methods::DISCOVER => {
                return EncodedResponse::ok(rpc::response(
                    request.id(),
                    JsonRope::from(handshake::discover(snapshot, &view)),
                ));
            }
            methods::TOOLS_CALL => vmcp_route::call_tool(context, raw).await,
            // Boxed: a call of a tool, the most frequent request, does not carry the state of the others.
            methods::RESOURCES_READ => Box::pin(vmcp_route::read_resource(context, raw)).await,
            methods::PROMPTS_GET => Box::pin(vmcp_route::get_prompt(context, raw)).await,
            methods::SUBSCRIBE => Box::pin(subscriptions::subscribe(&edge.push, peer, context, params)).await,
            methods::UNSUBSCRIBE => {
                edge.engine.call_observers().acted(&Action {
                    target: request.subject().as_deref(),
                    session: peer.session,
                    ..Action::of_client(ActionArea::Request, method, &peer.principal)
                });
                subscriptions::unsubscribe(&edge.push, peer, params)
            }
            methods::SET_LEVEL => log_level::set_level(edge, peer, params),
            methods::COMPLETE => Box::pin(vmcp_route::complete(context, raw)).await,
            methods::TASKS_LIST if has_tasks => Box::pin(vmcp_route::tasks::list(context, raw)).await,
            _ => match TASK_METHODS.into_iter().find(|task| has_tasks && *task == method) {
                Some(method) => Box::pin(vmcp_route::tasks::relay(context, method, raw)).await,
                None => Box::pin(vmcp_route::extensions::relay(context, method, raw)).await,
            },
        };
        if let Content::Error(error) = &answer.content
            && needs_subject(request)
        {
            refused(edge, peer, request, &message(error));
        }
        self.encode(&caller.consent, answer)
    }

    /// Answers a list request.
    fn answer_list(self, list: List) -> EncodedResponse {
        let Self { edge, snapshot, peer, request } = self;
        // A session was told other capabilities, perhaps: its lists are empty then.
        if peer.era == Era::Modern && !snapshot.declares(&snapshot.view(&peer.principal), list) {
            return self.refuse(&RpcError::method_not_found(request.method()));
        }
        match lists::page(&edge.engine, snapshot, peer, list, request.params()) {
            Ok(page) => EncodedResponse::ok(rpc::response_around(request.id(), page)),
            Err(error) => self.refuse(&error),
        }
    }

    /// Encodes an answer in the terms of the client's era. A result that needs no change is forwarded as the
    /// bytes that came.
    fn encode(self, consent: &Consent, answer: Answer) -> EncodedResponse {
        let Self { edge, snapshot, peer, request } = self;
        let method = request.method();
        let plan = ResultPlan {
            from: answer.era,
            to: peer.era,
            server_info: (peer.era == Era::Modern).then(|| snapshot.server_info()),
            ..ResultPlan::default()
        };
        let result = match answer.content {
            Content::Result(result) => result,
            Content::Error(error) => {
                let uri = request.subject();
                let status = codes::http_status(code(&error), peer.era);
                let failure = Some(Box::new(failure_of(&error)));
                return match translate::error(method, &error, answer.era, peer.era, uri.as_deref()) {
                    Ok(error) => {
                        let body = rpc::error(Some(request.id()), error).into();
                        EncodedResponse { status, body, rest: None, challenge: None, failure }
                    }
                    Err(problem) => self.refuse(&untranslatable(&problem)),
                };
            }
            Content::StepUp(step_up) => {
                let StepUp { error, challenge } = *step_up;
                let challenge = Some(Box::new(challenge));
                return EncodedResponse { status: FORBIDDEN, challenge, ..self.refuse(&error) };
            }
            Content::Arriving(answer) => {
                let (id, metrics) = (request.id().get(), edge.engine.metrics());
                return match ArrivingResponse::begin(method, id, &plan, *answer, metrics) {
                    Ok((body, rest)) => EncodedResponse { rest: Some(rest), ..EncodedResponse::ok(body) },
                    Err(problem) => self.refuse(&RpcError::new(codes::INTERNAL_ERROR, problem.to_string())),
                };
            }
        };
        let state = answer.pending.as_deref().map(|backend| self.sealed_state(consent, backend, &result));
        let state = match state.transpose() {
            Ok(state) => state.flatten(),
            Err(error) => return self.refuse(&error),
        };
        let plan = ResultPlan { request_state: state.as_deref(), ..plan };
        let failure = result.is_tool_error().then(|| Box::new(OperationFailure::Tool));
        if let Some(received) = result.received()
            && let Some(result) = translate::forward(method, received, &plan)
        {
            let body = rpc::response_around(request.id(), result);
            return EncodedResponse { failure, ..EncodedResponse::ok(body) };
        }
        match translate::result(method, &result, &plan) {
            Ok(result) => {
                EncodedResponse { failure, ..EncodedResponse::ok(rpc::response(request.id(), result)) }
            }
            Err(problem) => self.refuse(&untranslatable(&problem)),
        }
    }

    /// Seals the state of a backend that asks for input; `None` if the result needs none. An error if the
    /// client did not declare what it would be asked.
    fn sealed_state(
        self,
        consent: &Consent,
        backend: &str,
        result: &Payload,
    ) -> Result<Option<String>, RpcError> {
        let Self { edge, peer, request, .. } = self;
        let object = Object::parse(result).unwrap_or_default();
        match translate::result_type(&object) {
            ResultType::InputRequired if peer.era == Era::Modern => {
                if let Some(missing) = missing_capability(peer, &object) {
                    return Err(RpcError::missing_client_capability(missing));
                }
                let Some(state) = object.get_str(REQUEST_STATE) else { return Ok(None) };
                let consent = consent.tool().map(|tool| edge.consents.keep(tool, STATE_LIFETIME));
                let (backend, state) = (backend.to_owned(), state.into_owned());
                let continuation = Continuation::Relayed { backend, state, consent };
                let binding = binding(&peer.principal, request);
                let until = now().saturating_add(STATE_LIFETIME.as_secs());
                let sealed = continuation.seal(&edge.ring(), &random(), &binding, until);
                sealed.map(Some).map_err(|error| RpcError::new(codes::INTERNAL_ERROR, error.to_string()))
            }
            _ => Ok(None),
        }
    }

    /// Answers with an error.
    fn refuse(self, error: &RpcError) -> EncodedResponse {
        EncodedResponse::error(self.peer.era, self.request.id(), error)
    }
}

/// True for a call that names nothing, and ends before it is recorded.
fn needs_subject(request: &OwnedRequest) -> bool {
    let names = [
        methods::TOOLS_CALL,
        methods::RESOURCES_READ,
        methods::PROMPTS_GET,
        methods::SUBSCRIBE,
        methods::COMPLETE,
    ];
    names.contains(&request.method()) && request.subject().is_none()
}

/// Takes the tokens of a request (`rateLimiting.requests`), whatever its method.
pub(crate) async fn within_rate(
    snapshot: &Snapshot,
    principal: &Principal,
    method: &str,
    subject: &str,
) -> Result<(), RpcError> {
    let own = match own_name(subject).filter(|_| method == methods::TOOLS_CALL) {
        Some(OwnName::Reserved(tool) | OwnName::Bare(tool)) => Some(tool.dotted()),
        _ => None,
    };
    let names = [own.unwrap_or(subject), method];
    let taken = snapshot.rate_limiter.take_request(&principal.key(), names).await;
    taken.map_err(|Limited { scope, retry_after }| {
        let seconds = retry_after.as_secs_f64().ceil();
        let message =
            format!("the rate limit of {} is reached, try again in {seconds} seconds", scope.words());
        RpcError::new(codes::INTERNAL_ERROR, message)
    })
}

/// Tells the observers of a request that was refused before it was a call.
pub(crate) fn refused(edge: &Edge, peer: &Peer, request: &OwnedRequest, reason: &str) {
    edge.engine.call_observers().refused(&Refusal {
        principal: &peer.principal,
        reason,
        method: Some(request.method()),
        subject: request.subject().as_deref(),
        session: peer.session,
        trace: None,
    });
}

/// Returns a capability that the questions need and the client did not declare.
fn missing_capability(peer: &Peer, question: &Object<'_>) -> Option<&'static str> {
    let requests = question.get(INPUT_REQUESTS).and_then(|requests| Object::parse(requests).ok())?;
    let answerable = AnswerableQuestions::read(peer.client.capabilities.as_deref());
    requests.iter().find_map(|(_, request)| {
        let request = Object::parse(request).unwrap_or_default();
        let (method, params) = (request.get_str("method").unwrap_or_default(), request.get("params"));
        // A method without a known capability belongs to an extension.
        client_capabilities::required(&method, params).filter(|_| !answerable.allow(&method, params))
    })
}

/// Returns an error object as telemetry counts it.
fn failure_of(error: &RawValue) -> OperationFailure {
    OperationFailure::Rpc { code: code(error), message: message(error) }
}

/// Returns the message of a JSON-RPC error object.
fn message(error: &RawValue) -> String {
    let object = Object::parse(error).unwrap_or_default();
    object.get_str("message").map(Cow::into_owned).unwrap_or_default()
}

/// Returns the code of a JSON-RPC error object.
fn code(error: &RawValue) -> i64 {
    let code = Object::parse(error).ok().and_then(|error| error.text("code")?.parse().ok());
    code.unwrap_or(codes::INTERNAL_ERROR)
}

/// Returns the error of a result that cannot be put in the terms of the client's era.
fn untranslatable(problem: &TranslateError) -> RpcError {
    RpcError::new(codes::INTERNAL_ERROR, problem.to_string())
}
