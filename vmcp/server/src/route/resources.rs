//! `resources/read`, of listed resources and of unlisted ones whose backend is certain.

use serde_json::value::RawValue;
use vmcp_wire::methods;

use super::answer::Answer;
use super::backend::request::{self, Target};
use super::caller::Caller;
use super::subject::Subject;
use crate::engine::{Engine, Snapshot, View};

/// `resources/read`.
pub async fn read_resource(engine: &Engine, caller: &Caller, params: &RawValue) -> Answer {
    let subject = match Subject::parse(params, "uri") {
        Ok(params) => params.subject,
        Err(error) => return Answer::error(&error),
    };
    let snapshot = engine.snapshot();
    let view = snapshot.view(caller.identity);
    let listed = view.resource(&subject).map(|resource| &**resource.backend());
    let Some(backend) = listed.or_else(|| unlisted(&snapshot, view, caller, &subject)) else {
        return Answer::no_resource(&subject);
    };
    let target = Target::read(&snapshot, backend, methods::RESOURCES_READ, Some(&subject));
    request::relay(engine, &snapshot, caller, target, params).await
}

/// Returns the backend of a resource that is on no list: the one whose tool names it as its user interface,
/// else the only backend that has resources.
fn unlisted<'a>(snapshot: &'a Snapshot, view: &'a View, caller: &Caller, uri: &str) -> Option<&'a str> {
    if view.hides(uri) {
        return None;
    }
    if let Some(backend) = view.interface(uri) {
        return Some(backend);
    }
    let mut declared = snapshot
        .declared_capabilities(caller.identity)
        .filter(|(_, capabilities)| capabilities.has_resources());
    match (declared.next(), declared.next()) {
        (Some((only, _)), None) => Some(only),
        _ => None,
    }
}
