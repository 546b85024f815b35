//! Routes methods of extensions, which the protocol itself does not define, to the one backend that declares
//! the extension.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use vmcp_wire::handshake::client_capabilities::ClientExtensions;
use vmcp_wire::letter_case::folded;
use vmcp_wire::methods;
use vmcp_wire::owned::OwnedParams;
use vmcp_wire::rpc::RpcError;

use crate::answer::Answer;
use crate::call::{self, hidden};
use crate::caller::CallContext;
use crate::router::BackendTarget;
use vmcp_engine::access::policy::Item;
use vmcp_engine::telemetry::calls::Origin;

/// Relays a request of an extension, untouched, to the one backend that declares an extension which the
/// client declares too.
pub async fn relay(context: CallContext<'_>, method: &str, params: &OwnedParams) -> Answer {
    let begun = Instant::now();
    let unknown = || Answer::error(&RpcError::method_not_found(method));
    let Some(backend) = backend(context, method, params) else {
        context.refuse_unknown(method, method);
        hidden::hold(context, begun).await;
        return unknown();
    };
    let target = BackendTarget {
        backend,
        method: Cow::Owned(method.to_owned()),
        item: Item::Backend,
        deadline: context.snapshot.tool_timeout(backend),
        idempotent: false,
    };
    let record = context.start_record(Origin::Client);
    if let Ok(call) = call::authorize(context, record, target, Some(params.text())) {
        call.relay(params).await
    } else {
        hidden::hold(context, begun).await;
        unknown()
    }
}

/// Returns the backend of an extension's method, if it is certain: the one that has the URI in the
/// parameters, else the only one whose extension is named like the method, else the only one with an
/// extension at all.
fn backend<'a>(context: CallContext<'a>, method: &str, params: &OwnedParams) -> Option<&'a Arc<str>> {
    // Requests about tasks go by the sealed ids of their owners.
    if methods::is_core(method) || method.starts_with("tasks/") {
        return None;
    }
    let client = ClientExtensions::read(context.caller.client.capabilities.as_deref());
    let declared = context.snapshot.declared_capabilities(context.view);
    let candidates = declared.filter(|(_, capabilities)| capabilities.shared(&client).next().is_some());
    let candidates: Vec<_> = candidates.collect();
    let view = context.view;
    // Some servers take `Uri` for `uri`, too.
    let keys = params.keys().filter(|key| folded(key) == "uri");
    let mut uris = keys.filter_map(|key| params.get_str(&key));
    if uris.any(|uri| view.hides(&uri)) {
        return None;
    }
    let uri = params.get_str("uri");
    let owner = uri.and_then(|uri| view.resource(&uri));
    if let Some(owner) = owner {
        let owner = candidates.iter().find(|(name, _)| *name == owner.backend());
        return owner.map(|(name, _)| *name);
    }
    let topic = method.split('/').next().unwrap_or_default();
    let named = |id: &str| id.rsplit('/').next() == Some(topic);
    let named = candidates.iter().filter(|(_, capabilities)| capabilities.shared(&client).any(named));
    let named: Vec<_> = named.map(|(name, _)| *name).collect();
    match (named.as_slice(), candidates.as_slice()) {
        ([only], _) | ([], [(only, _)]) => Some(only),
        _ => None,
    }
}
