//! Subscriptions to resources and tasks: the right to them, asked when they are opened and when a reload
//! moves them to another backend.

use std::sync::Arc;

use vmcp_wire::methods;

pub use crate::call::hidden::hold;
use crate::call::task_calls::task_names::KnownTask;
use crate::call::{self, Authorized, hidden};
use crate::caller::CallContext;
use crate::relay::own_resources;
use crate::router::{self, BackendTarget};
use vmcp_engine::access::policy::{AccessRequest, Decision, Item};
use vmcp_engine::telemetry::calls::Origin;

/// Returns the backend of a listed resource and the way to subscribe to it; `None` if it is unknown to the
/// caller, or denied.
pub fn resource<'a>(context: CallContext<'a>, uri: &'a str) -> Option<(&'a Arc<str>, Authorized<'a>)> {
    let Some(listed) = context.view.resource(uri) else {
        hidden::record_resource(context, uri, methods::SUBSCRIBE);
        return None;
    };
    let backend = listed.backend();
    Some((backend, resource_of(context, backend, uri)?))
}

/// Returns the way to subscribe to a resource of a certain backend, as a subscription that a reload moves.
pub fn resource_of<'a>(
    context: CallContext<'a>,
    backend: &'a Arc<str>,
    uri: &'a str,
) -> Option<Authorized<'a>> {
    authorized(context, backend, methods::SUBSCRIBE, Item::Resource(uri))
}

/// True if the URI is that of an own resource of vmcp, which no backend has.
pub fn is_own(context: CallContext<'_>, uri: &str) -> bool {
    router::own_resource(context, uri).is_some()
}

/// Returns a digest of the content of an own resource, as the caller reads it; `None` if this caller has no
/// such resource. The policy is asked as for reading, and the subscription is recorded.
pub fn own_digest(context: CallContext<'_>, uri: &str) -> Option<u64> {
    let resource = router::own_resource(context, uri)?;
    own_resources::subscribe(context, uri, resource)
}

/// True if the policies in force let the caller read an own resource, and such resources are served. Records
/// nothing.
pub fn may_read_own(context: CallContext<'_>, uri: &str) -> bool {
    router::own_resource(context, uri).is_some_and(|resource| own_resources::is_allowed(context, resource))
}

/// Returns a digest of an own resource that the caller may read: the same for all callers of one view, and 0
/// without such a server or tool. Blocks while it lists servers and tools.
pub fn own_content(context: CallContext<'_>, uri: &str) -> u64 {
    let resource = router::own_resource(context, uri);
    resource.and_then(|resource| own_resources::digest(context, resource)).unwrap_or_default()
}

/// Returns the way to subscribe to a task at its backend; `None` if that is denied.
pub fn task<'a>(context: CallContext<'a>, task: &'a KnownTask<'a>) -> Option<Authorized<'a>> {
    authorized(context, task.backend, methods::LISTEN, Item::Task { tool: task.tool, id: &task.id })
}

/// True if the policies in force let the caller keep a subscription.
pub fn is_allowed(context: CallContext<'_>, backend: &str, item: Item<'_>) -> bool {
    let request = AccessRequest {
        principal: &context.caller.principal,
        action: methods::SUBSCRIBE,
        backend,
        item,
        arguments: None,
    };
    matches!(context.snapshot.policy.decide(&request), Decision::Allow { .. })
}

fn authorized<'a>(
    context: CallContext<'a>,
    backend: &'a Arc<str>,
    method: &'static str,
    item: Item<'a>,
) -> Option<Authorized<'a>> {
    let target = BackendTarget::read(context.snapshot, backend, method, item);
    call::authorize(context, context.start_record(Origin::Client), target, None).ok()
}
