//! The client of a conversation: how what comes from the backend is written for it, and what it carries between two rounds.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;
use vmcp_backend::{Question, SessionId};
use vmcp_json::json_rope::JsonRope;
use vmcp_json::text;
use vmcp_wire::envelope::{Message, Request};
use vmcp_wire::era::Era;
use vmcp_wire::handshake::client_capabilities::AnswerableQuestions;
use vmcp_wire::keys::REQUEST_STATE;
use vmcp_wire::params::Params;
use vmcp_wire::rpc::{self, RpcError};
use vmcp_wire::sealed::{request_state::Continuation, request_state::StateError};
use vmcp_wire::translate::{self, NotificationPlan, ResultPlan, Translated};
use vmcp_wire::{codes, methods};

use crate::edge::request::dispatch;
use crate::edge::request::edge::Edge;
use crate::edge::request::encoded_response::EncodedResponse;
use crate::edge::request::in_flight::InFlightGuard;
use crate::edge::session::random::{now, random};
use crate::identity::Identity;

/// What has to be known of the client after the request has begun.
pub(super) struct Client {
    pub(super) edge: Arc<Edge>,
    pub(super) identity: Identity,
    pub(super) era: Era,
    pub(super) session: Option<SessionId>,
    pub(super) capabilities: Option<Arc<RawValue>>,
    /// Its request.
    pub(super) message: Bytes,
    /// How it took up a call that had been parked.
    pub(super) resumed: Option<ResumedRequest>,
}

/// A call that began with another request.
pub(super) struct ResumedRequest {
    /// The id of the present request.
    pub(super) id: Box<RawValue>,
    /// Its progress token.
    pub(super) token: Option<Box<RawValue>>,
    pub(super) _entered: Option<InFlightGuard>,
}

impl Client {
    /// What a modern client carried back, if this is the repetition of a request.
    pub(super) fn continuation(
        &self,
        request: &Request<'_>,
        params: &Params<'_>,
    ) -> Result<Option<Continuation>, StateError> {
        if self.era == Era::Legacy || !methods::may_require_input(&request.method) {
            return Ok(None);
        }
        let Some(state) = params.object.text(REQUEST_STATE) else { return Ok(None) };
        // What is no string is no state of ours either.
        let state = text::unquoted(state).unwrap_or_default();
        let binding = dispatch::binding(self.identity, request, params);
        Continuation::open(&self.edge.ring(), &state, &binding, now()).map(Some)
    }

    pub(super) fn seal(&self, continuation: &Continuation, until: u64) -> Result<String, StateError> {
        let Ok(Message::Request(request)) = Message::parse(&self.message) else {
            return Err(StateError::Content);
        };
        let Ok(params) = Params::parse(request.params) else { return Err(StateError::Content) };
        let binding = dispatch::binding(self.identity, &request, &params);
        continuation.seal(&self.edge.ring(), &random(), &binding, until)
    }

    /// The answer that asks, with the state that the client is to carry; an error without one.
    pub(super) fn ask_for_input(
        &self,
        result: JsonRope<'_>,
        sealed: Result<String, Option<StateError>>,
    ) -> EncodedResponse {
        let Ok(Message::Request(request)) = Message::parse(&self.message) else {
            return EncodedResponse::internal_error();
        };
        let state = match sealed {
            Ok(state) => state,
            Err(problem) => {
                let message = problem.map_or_else(
                    || "too many calls wait for input from their clients; try again later".to_owned(),
                    |problem| problem.to_string(),
                );
                return EncodedResponse::error(
                    self.era,
                    request.id,
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
        match translate::result(&request.method, &result, &plan) {
            Ok(result) => EncodedResponse::ok(rpc::response(request.id, result)),
            Err(_) => EncodedResponse::internal_error(),
        }
    }

    /// A notification in the terms of the client's era, if there are any.
    pub(super) fn notification(&self, message: &RawValue) -> Option<Vec<u8>> {
        let Ok(Message::Notification(notification)) = Message::parse(message.get().as_bytes()) else {
            return None;
        };
        let mut plan = NotificationPlan { to: self.era, ..NotificationPlan::default() };
        if let Some(resumed) = self.resumed.as_ref().filter(|_| notification.method == methods::PROGRESS) {
            plan.progress_token = Some(resumed.token.as_deref()?);
        }
        match translate::notification(&notification.method, notification.params, &plan) {
            Ok(Translated::Params(params)) => Some(rpc::notification(&notification.method, params)),
            Ok(Translated::Dropped) | Err(_) => None,
        }
    }

    pub(super) fn may_be_asked(&self, question: &Question) -> bool {
        AnswerableQuestions::read(self.capabilities.as_deref())
            .allow(&question.method, question.params.as_deref())
    }

    /// An answer under the id of the present request.
    pub(super) fn under_present_id(&self, response: EncodedResponse) -> EncodedResponse {
        let Some(resumed) = &self.resumed else { return response };
        let EncodedResponse { status, body } = response;
        let body = body.into_bytes();
        let body = match Message::parse(&body) {
            Ok(Message::Response(response)) => rpc::response(&resumed.id, response.result),
            Ok(Message::Error(error)) => rpc::error(Some(&resumed.id), error.error),
            _ => return EncodedResponse::internal_error(),
        };
        EncodedResponse { status, body: body.into() }
    }
}
