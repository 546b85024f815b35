//! Handlers of `resources/subscribe` and `resources/unsubscribe`, which only legacy sessions have.

use std::sync::Arc;

use serde_json::value::RawValue;
use vmcp_backend::{Backend, RpcOutcome};
use vmcp_json::object::Object;
use vmcp_json::text::empty_object;
use vmcp_wire::codes;
use vmcp_wire::era::Era;
use vmcp_wire::rpc::RpcError;

use super::server_push::ServerPush;
use super::topics::{Topic, TopicKind};
use crate::edge::session::peer::Peer;
use crate::engine::Snapshot;
use crate::identity::Identity;
use crate::route::Answer;

/// Handles `resources/subscribe`: subscribes the session at the backend and registers it. A second
/// subscription to the same URI is answered without asking the backend.
pub(crate) async fn subscribe(push: &ServerPush, peer: &Peer, params: &Object<'_>) -> Answer {
    let (Some(session), Some(uri)) = (peer.session, params.get_str("uri")) else { return no_uri() };
    let snapshot = push.engine.snapshot();
    let Some((topic, backend)) = resource(&snapshot, peer.identity, &uri) else {
        let error = RpcError::resource_not_found(&uri, Era::Legacy).to_json();
        let error = RawValue::from_string(error).unwrap_or_default();
        return Answer { outcome: Err(error.into()), era: Era::Legacy, pending: None };
    };
    let registered = push.router.register(session, peer.expires, *push.engine.generations().borrow());
    let answer = match push.router.topics.reserve(&registered.mailbox, topic) {
        Ok(None) => Answer::own(empty_object().to_owned()),
        Ok(Some(reservation)) => match backend.subscribe(&uri).await {
            Ok(outcome) => {
                if matches!(outcome, RpcOutcome::Result(_)) {
                    reservation.confirm(backend.clone());
                }
                // An empty result is the same in both eras; an own one needs no translation.
                match outcome {
                    RpcOutcome::Result(_) => Answer::own(empty_object().to_owned()),
                    RpcOutcome::Error(error) => {
                        Answer { outcome: Err(error), era: Era::Legacy, pending: None }
                    }
                }
            }
            Err(error) => Answer::unanswered(backend.name(), &error),
        },
        Err(full) => Answer::error(&RpcError::new(codes::INVALID_REQUEST, full.to_string())),
    };
    // The session may have been ended while the backend confirmed.
    push.release_if_ended(session);
    push.router.forget_if_unused(registered);
    answer
}

/// Handles `resources/unsubscribe`. A subscription that does not exist is no error.
pub(crate) fn unsubscribe(push: &ServerPush, peer: &Peer, params: &Object<'_>) -> Answer {
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

/// Returns the topic and the backend of a resource that `identity` may see.
pub(crate) fn resource<'a>(
    snapshot: &'a Snapshot,
    identity: Identity,
    uri: &str,
) -> Option<(Topic, &'a Backend)> {
    let resource = snapshot.view(identity).resource(uri)?;
    let (name, backend) = snapshot.backends.get_key_value(resource.backend())?;
    Some((Topic { kind: TopicKind::Resource, backend: Arc::clone(name), name: uri.into() }, backend))
}
