//! [`Client`]: encodes backend messages for the client of a conversation, and seals the state that a modern
//! client carries between two rounds of a request.

use std::sync::Arc;

use serde_json::value::RawValue;
use vmcp_backend::{Question, SessionId};
use vmcp_json::json_rope::JsonRope;
use vmcp_json::text;
use vmcp_wire::envelope::Message;
use vmcp_wire::era::Era;
use vmcp_wire::handshake::client_capabilities::AnswerableQuestions;
use vmcp_wire::keys::REQUEST_STATE;
use vmcp_wire::owned::OwnedRequest;
use vmcp_wire::rpc::{self, RpcError};
use vmcp_wire::sealed::{request_state::Continuation, request_state::StateError};
use vmcp_wire::translate::{self, NotificationPlan, ResultPlan, Translated};
use vmcp_wire::{codes, methods};

use crate::request::client_state::relayed_state;
use crate::request::edge::Edge;
use crate::request::encoded_response::EncodedResponse;
use crate::request::in_flight::InFlightGuard;
use crate::session::pending_questions::ClientNetwork;
use vmcp_engine::access::identity::Principal;
use vmcp_engine::random::{now, random};

/// The facts about a client that a conversation needs after its request began.
pub(super) struct Client {
    pub(super) edge: Arc<Edge>,
    pub(super) principal: Principal,
    pub(super) era: Era,
    pub(super) session: Option<SessionId>,
    /// The way to the client, for telemetry.
    pub(super) network: ClientNetwork,
    pub(super) capabilities: Option<Arc<RawValue>>,
    /// The request that began this conversation.
    pub(super) request: OwnedRequest,
    /// Set if this request resumed a parked call.
    pub(super) resumed: Option<ResumedRequest>,
}

/// The request that resumed a call which began with another request.
pub(super) struct ResumedRequest {
    /// The progress token of the present request; progress of the call is reported under it.
    pub(super) token: Option<Box<RawValue>>,
    /// Keeps the request cancellable while it runs.
    pub(super) _entered: Option<InFlightGuard>,
}

impl Client {
    /// Opens the `requestState` that a modern client carried back; `None` unless this repeats a
    /// request.
    pub(super) fn continuation(&self) -> Result<Option<Continuation>, StateError> {
        let request = &self.request;
        if self.era == Era::Legacy || !methods::may_require_input(request.method()) {
            return Ok(None);
        }
        let Some(state) = request.params().get(REQUEST_STATE) else { return Ok(None) };
        // A state that is not a string is not one of vmcp's either.
        let state = text::unquoted(state).unwrap_or_default();
        let binding = relayed_state::binding(&self.principal, request);
        Continuation::open(&self.edge.ring(), &state, &binding, now()).map(Some)
    }

    /// Seals a continuation, bound to this client and request, valid until `until` (seconds since 1970).
    pub(super) fn seal(&self, continuation: &Continuation, until: u64) -> Result<String, StateError> {
        let binding = relayed_state::binding(&self.principal, &self.request);
        continuation.seal(&self.edge.ring(), &random(), &binding, until)
    }

    /// Encodes the `input_required` answer with its sealed state. Without a state it becomes an error: `None`
    /// stands for too many parked calls.
    pub(super) fn ask_for_input(
        &self,
        result: JsonRope<'_>,
        sealed: Result<String, Option<StateError>>,
    ) -> EncodedResponse {
        let request = &self.request;
        let state = match sealed {
            Ok(state) => state,
            Err(problem) => {
                let message = problem.map_or_else(
                    || "too many calls wait for input from their clients; try again later".to_owned(),
                    |problem| problem.to_string(),
                );
                return EncodedResponse::error(
                    self.era,
                    request.id(),
                    &RpcError::new(codes::INTERNAL_ERROR, message),
                );
            }
        };
        let Ok(result) = result.into_raw() else { return EncodedResponse::internal_error() };
        let snapshot = self.edge.engine.snapshot();
        let plan = ResultPlan {
            from: Era::Modern,
            to: Era::Modern,
            server_info: Some(snapshot.server_info()),
            request_state: Some(&state),
            ..ResultPlan::default()
        };
        match translate::result(request.method(), &result, &plan) {
            Ok(result) => EncodedResponse::ok(rpc::response(request.id(), result)),
            Err(_) => EncodedResponse::internal_error(),
        }
    }

    /// Encodes a notification for the client's era; `None` if that era does not have it.
    pub(super) fn notification(&self, message: &RawValue) -> Option<Vec<u8>> {
        let Ok(Message::Notification(notification)) = Message::parse(message.get().as_bytes()) else {
            return None;
        };
        let mut plan = NotificationPlan { to: self.era, ..NotificationPlan::default() };
        if let Some(resumed) = self.resumed.as_ref().filter(|_| notification.method == methods::PROGRESS) {
            // Progress of a resumed call carries the token of the present request; without a token the client
            // wants none.
            plan.progress_token = Some(resumed.token.as_deref()?);
        }
        match translate::notification(&notification.method, notification.params, &plan) {
            Ok(Translated::Params(params)) => Some(rpc::notification(&notification.method, params)),
            Ok(Translated::Dropped) | Err(_) => None,
        }
    }

    /// Returns true if the client declared the capability that the question needs.
    pub(super) fn may_be_asked(&self, question: &Question) -> bool {
        AnswerableQuestions::read(self.capabilities.as_deref())
            .allow(&question.method, question.params.as_deref())
    }

    /// Replaces the id of a resumed call's answer by that of the present request.
    pub(super) fn under_present_id(&self, response: EncodedResponse) -> EncodedResponse {
        if self.resumed.is_none() {
            return response;
        }
        let id = self.request.id();
        let EncodedResponse { status, body, rest, challenge, failure } = response;
        if let Some(rest) = rest {
            let (body, rest) = rest.under_id(body, id.get());
            return EncodedResponse { status, body, rest: Some(rest), challenge, failure };
        }
        let body = body.into_bytes();
        let body = match Message::parse(&body) {
            Ok(Message::Response(response)) => rpc::response(id, response.result),
            Ok(Message::Error(error)) => rpc::error(Some(id), error.error),
            _ => return EncodedResponse::internal_error(),
        };
        EncodedResponse { status, body: body.into(), rest: None, challenge, failure }
    }
}
