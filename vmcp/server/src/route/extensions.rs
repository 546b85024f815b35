//! Routes methods of extensions, which the protocol itself does not define, to the one backend that declares
//! the extension.

use serde_json::value::RawValue;
use vmcp_json::object::Object;
use vmcp_wire::handshake::client_capabilities::ClientExtensions;
use vmcp_wire::methods;
use vmcp_wire::rpc::RpcError;

use super::answer::Answer;
use super::backend::request::{self, Target};
use super::caller::Caller;
use crate::engine::{Engine, Snapshot};

/// Relays a request of an extension, untouched, to the one backend that declares an extension which the
/// client declares too.
pub async fn relay(engine: &Engine, caller: &Caller, method: &str, params: &RawValue) -> Answer {
    let snapshot = engine.snapshot();
    let Some(backend) = backend(&snapshot, caller, method, params) else {
        return Answer::error(&RpcError::method_not_found(method));
    };
    let deadline = snapshot.tool_timeout(backend);
    let target =
        Target { backend, method, subject: None, param_headers: Vec::new(), deadline, idempotent: false };
    request::relay(engine, &snapshot, caller, target, params).await
}

/// Returns the backend of an extension's method, if it is certain: the one that has the URI in the
/// parameters, else the only one whose extension is named like the method, else the only one with an
/// extension at all.
fn backend<'a>(snapshot: &'a Snapshot, caller: &Caller, method: &str, params: &RawValue) -> Option<&'a str> {
    if methods::is_core(method) {
        return None;
    }
    let client = ClientExtensions::read(caller.client.capabilities.as_deref());
    let declared = snapshot.declared_capabilities(caller.identity);
    let candidates = declared.filter(|(_, capabilities)| capabilities.shared(&client).next().is_some());
    let candidates: Vec<_> = candidates.map(|(name, capabilities)| (&**name, capabilities)).collect();
    let uri = Object::parse(params).ok().and_then(|params| params.get_str("uri"));
    let view = snapshot.view(caller.identity);
    if uri.as_deref().is_some_and(|uri| view.hides(uri)) {
        return None;
    }
    let owner = uri.and_then(|uri| view.resource(&uri));
    if let Some(owner) = owner {
        let owner = candidates.iter().find(|(name, _)| *name == &**owner.backend());
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
