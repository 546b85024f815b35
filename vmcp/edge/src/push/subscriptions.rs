//! Handlers of `resources/subscribe` and `resources/unsubscribe`, which only legacy sessions have.

use std::sync::Arc;
use std::time::Instant;

use serde_json::value::RawValue;
use vmcp_backend::RpcOutcome;
use vmcp_json::text::empty_object;
use vmcp_wire::codes;
use vmcp_wire::era::Era;
use vmcp_wire::owned::OwnedParams;
use vmcp_wire::rpc::RpcError;

use super::server_push::ServerPush;
use super::topics::{Topic, TopicKind};
use crate::session::peer::Peer;
use vmcp_engine::telemetry::calls::Outcome;
use vmcp_route::{Answer, CallContext, Content};

/// Handles `resources/subscribe`: subscribes the session at the backend and registers it. A second
/// subscription to the same URI is answered without asking the backend.
pub(crate) async fn subscribe(
    push: &ServerPush,
    peer: &Peer,
    context: CallContext<'_>,
    params: &OwnedParams,
) -> Answer {
    let begun = Instant::now();
    let (Some(session), Some(uri)) = (peer.session, params.get_str("uri")) else { return no_uri() };
    let Some((backend, call)) = vmcp_route::subscriptions::resource(context, &uri) else {
        vmcp_route::subscriptions::hold(context, begun).await;
        let error = RpcError::resource_not_found(&uri, Era::Legacy).to_json();
        let error = RawValue::from_string(error).unwrap_or_default();
        return Answer { content: Content::Error(error.into()), era: Era::Legacy, pending: None };
    };
    let topic = Topic { kind: TopicKind::Resource, backend: Arc::clone(backend), name: (&*uri).into() };
    let registered =
        push.router.register(session, peer.principal.key(), peer.life, *push.engine.generations().borrow());
    let answer = match push.router.topics.reserve(
        &registered.mailbox,
        topic,
        peer.principal.clone(),
        Some(session),
        None,
    ) {
        Ok(None) => {
            call.settle(Outcome::Ok);
            Answer::own(empty_object().to_owned())
        }
        Ok(Some(reservation)) => match call.subscribe().await {
            Ok((backend, RpcOutcome::Result(_))) => {
                reservation.confirm(backend.clone());
                // An empty result is the same in both eras; an own one needs no translation.
                Answer::own(empty_object().to_owned())
            }
            Ok((_, refused)) => Answer { content: refused.into(), era: Era::Legacy, pending: None },
            Err(error) => Answer::unanswered(backend, &error),
        },
        Err(full) => {
            call.settle(Outcome::ToolError);
            Answer::error(&RpcError::new(codes::INVALID_REQUEST, full.to_string()))
        }
    };
    // The session may have been ended while the backend confirmed.
    push.release_if_ended(session);
    push.router.forget_if_unused(registered);
    answer
}

/// Handles `resources/unsubscribe`. A subscription that does not exist is no error.
pub(crate) fn unsubscribe(push: &ServerPush, peer: &Peer, params: &OwnedParams) -> Answer {
    let (Some(session), Some(uri)) = (peer.session, params.get_str("uri")) else { return no_uri() };
    if let Some(registered) = push.router.sessions.get(session) {
        let topics = &push.router.topics;
        // The subscription is found by URI among the client's own, not by the resource's present backend:
        // another backend may own the URI by now.
        for topic in topics.topics_of(registered.mailbox.number) {
            if topic.kind == TopicKind::Resource && *topic.name == *uri {
                topics.remove(registered.mailbox.number, &topic);
            }
        }
        push.router.forget_if_unused(registered);
    }
    Answer::own(empty_object().to_owned())
}

fn no_uri() -> Answer {
    Answer::error(&RpcError::new(codes::INVALID_PARAMS, "`params.uri` must be a string"))
}
