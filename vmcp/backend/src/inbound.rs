//! What a backend sends without being asked: notifications, and requests to its client.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use serde_json::value::RawValue;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use vmcp_wire::envelope::{Notification, Request};
use vmcp_wire::meta::PROGRESS_TOKEN;
use vmcp_wire::object::Object;
use vmcp_wire::rpc::RpcError;
use vmcp_wire::{codes, methods, rpc};

use crate::event::Event;
use crate::lock::lock;

/// One per connection, shared by everything that reads from it.
#[derive(Debug, Default)]
pub(crate) struct Inbound {
    /// Woken when the backend says that its definitions changed.
    pub(crate) changed: Arc<Notify>,
    last_id: AtomicU64,
    /// Calls under way, by request id. It is also their progress token upstream: tokens of different clients may be
    /// equal.
    routes: Mutex<HashMap<u64, Route>>,
}

#[derive(Debug)]
struct Route {
    /// The caller's own token.
    token: Option<Box<RawValue>>,
    listener: Listener,
}

/// Who hears of a call's progress.
#[derive(Clone, Debug)]
pub(crate) struct Listener {
    /// When the backend last showed any.
    pub(crate) active: Arc<Mutex<Instant>>,
    pub(crate) events: Option<mpsc::Sender<Event>>,
}

/// A notification on its way to the caller that it belongs to.
pub(crate) struct Delivery {
    to: mpsc::Sender<Event>,
    message: Box<RawValue>,
}

impl Delivery {
    /// Waits for room: for a stream that belongs to one call, whose server may be slowed down.
    pub(crate) async fn send(self) {
        // A caller that stopped listening is no error.
        let _ = self.to.send(Event::Notification(self.message)).await;
    }

    /// Drops the message when there is no room: for a stream shared by many calls.
    pub(crate) fn try_send(self) {
        if self.to.try_send(Event::Notification(self.message)).is_err() {
            tracing::debug!("a caller reads its notifications too slowly or not at all, one was dropped");
        }
    }
}

impl Inbound {
    pub(crate) fn new(changed: Arc<Notify>) -> Self {
        Self { changed, ..Self::default() }
    }

    /// Ids start at 1 and are never used again on the connection.
    pub(crate) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Notifications of request `id` go to `listener` until the guard is dropped.
    pub(crate) fn route(&self, id: u64, token: Option<Box<RawValue>>, listener: Listener) -> RouteGuard<'_> {
        lock(&self.routes).insert(id, Route { token, listener });
        RouteGuard { inbound: self, id }
    }

    /// Sorts a notification. `of` is the request on whose own stream it came; without it a log message can be
    /// attributed only while a single call is under way.
    pub(crate) fn notification(
        &self,
        notification: &Notification<'_>,
        whole: &[u8],
        of: Option<u64>,
    ) -> Option<Delivery> {
        match notification.method.as_ref() {
            methods::TOOLS_CHANGED | methods::RESOURCES_CHANGED | methods::PROMPTS_CHANGED => {
                self.changed.notify_one();
                None
            }
            methods::PROGRESS => self.progress(notification.params?),
            methods::LOG_MESSAGE => {
                let routes = lock(&self.routes);
                let route = match of {
                    Some(id) => routes.get(&id)?,
                    None if routes.len() == 1 => routes.values().next()?,
                    None => return None,
                };
                let to = route.listener.events.clone()?;
                Some(Delivery { to, message: serde_json::from_slice(whole).ok()? })
            }
            other => {
                tracing::trace!(method = other, "notification ignored");
                None
            }
        }
    }

    fn progress(&self, params: &RawValue) -> Option<Delivery> {
        let params = Object::parse(params).ok()?;
        let id: u64 = params.get(PROGRESS_TOKEN)?.get().parse().ok()?;
        let routes = lock(&self.routes);
        // Late progress of a call that has ended finds nobody.
        let route = routes.get(&id)?;
        *lock(&route.listener.active) = Instant::now();
        let to = route.listener.events.clone()?;
        let mut edit = params.edit();
        edit.set(PROGRESS_TOKEN, route.token.as_deref()?);
        let message = rpc::notification(methods::PROGRESS, Some(edit.finish()));
        Some(Delivery { to, message: serde_json::from_slice(&message).ok()? })
    }
}

/// The answer to a request from a backend to its client. All but `ping` need a client, and none is asked yet.
pub(crate) fn reply(request: &Request<'_>) -> Bytes {
    Bytes::from(match request.method.as_ref() {
        methods::PING => rpc::response(request.id, "{}"),
        method => {
            let refusal =
                RpcError::new(codes::METHOD_NOT_FOUND, format!("{method} is not supported by this client"));
            rpc::error(Some(request.id), refusal.to_json())
        }
    })
}

/// Tells a backend to stop working on request `id`.
pub(crate) fn cancelled(id: u64) -> Bytes {
    let params = format!(r#"{{"requestId":{id},"reason":"the caller no longer waits"}}"#);
    Bytes::from(rpc::notification(methods::CANCELLED, Some(params.into())))
}

/// Ends the routing of one request's notifications.
#[derive(Debug)]
pub(crate) struct RouteGuard<'a> {
    inbound: &'a Inbound,
    id: u64,
}

impl Drop for RouteGuard<'_> {
    fn drop(&mut self) {
        lock(&self.inbound.routes).remove(&self.id);
    }
}
