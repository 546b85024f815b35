//! Handlers of `resources/subscribe` and `resources/unsubscribe`, which only legacy sessions have.

use std::sync::Arc;
use std::time::Instant;

use serde_json::value::RawValue;
use vmcp_backend::{RpcOutcome, SessionId};
use vmcp_json::text::empty_object;
use vmcp_wire::codes;
use vmcp_wire::era::Era;
use vmcp_wire::owned::OwnedParams;
use vmcp_wire::rpc::RpcError;

use super::server_push::ServerPush;
use super::topics::{SubscriptionLimit, Topic, TopicKind};
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
    if vmcp_route::subscriptions::is_own(context, &uri) {
        let answer = subscribe_own(push, peer, session, context, &uri);
        if answer.is_none() {
            vmcp_route::subscriptions::hold(context, begun).await;
        }
        return answer.unwrap_or_else(|| unknown(&uri));
    }
    let Some((backend, call)) = vmcp_route::subscriptions::resource(context, &uri) else {
        vmcp_route::subscriptions::hold(context, begun).await;
        return unknown(&uri);
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
            refused(full)
        }
    };
    // The session may have been ended while the backend confirmed.
    push.release_if_ended(session);
    push.router.forget_if_unused(registered);
    answer
}

/// Subscribes a session to an own resource; `None` if this caller has no such resource.
fn subscribe_own(
    push: &ServerPush,
    peer: &Peer,
    session: SessionId,
    context: CallContext<'_>,
    uri: &str,
) -> Option<Answer> {
    let registered =
        push.router.register(session, peer.principal.key(), peer.life, *push.engine.generations().borrow());
    let principal = peer.principal.clone();
    let reserved =
        push.router.topics.reserve(&registered.mailbox, Topic::own(uri), principal, Some(session), None);
    let digest = vmcp_route::subscriptions::own_digest(context, uri);
    let answer = match (digest, reserved) {
        // A reservation ends here with its drop.
        (None, _) => None,
        (Some(_), Err(full)) => Some(refused(full)),
        (Some(digest), Ok(reservation)) => {
            if let Some(reservation) = reservation {
                reservation.confirm_own(digest);
                push.router.own_subscribed.notify_one();
            }
            Some(Answer::own(empty_object().to_owned()))
        }
    };
    // The session may have been ended meanwhile.
    push.release_if_ended(session);
    push.router.forget_if_unused(registered);
    answer
}

/// Handles `resources/unsubscribe`. An unknown subscription succeeds, too.
pub(crate) fn unsubscribe(push: &ServerPush, peer: &Peer, params: &OwnedParams) -> Answer {
    let (Some(session), Some(uri)) = (peer.session, params.get_str("uri")) else { return no_uri() };
    if let Some(registered) = push.router.sessions.get(session) {
        let topics = &push.router.topics;
        // The subscription is found by URI among the client's own, not by the resource's present backend:
        // another backend may own the URI by now.
        for topic in topics.topics_of(registered.mailbox.number) {
            if topic.kind != TopicKind::Task && *topic.name == *uri {
                topics.remove(registered.mailbox.number, &topic);
            }
        }
        push.router.forget_if_unused(registered);
    }
    Answer::own(empty_object().to_owned())
}

fn unknown(uri: &str) -> Answer {
    let error = RpcError::resource_not_found(uri, Era::Legacy).to_json();
    let error = RawValue::from_string(error).unwrap_or_default();
    Answer { content: Content::Error(error.into()), era: Era::Legacy, pending: None }
}

fn refused(full: SubscriptionLimit) -> Answer {
    Answer::error(&RpcError::new(codes::INVALID_REQUEST, full.to_string()))
}

fn no_uri() -> Answer {
    Answer::error(&RpcError::new(codes::INVALID_PARAMS, "`params.uri` must be a string"))
}
