//! `completion/complete`: completes an argument of a prompt or of a resource template.

use serde_json::value::RawValue;
use vmcp_backend::CallError;
use vmcp_json::object::Object;
use vmcp_wire::methods;

use super::answer::Answer;
use super::backend::request::{self, Target};
use super::caller::Caller;
use super::subject::shown;
use crate::engine::Engine;

/// Handles `completion/complete`: asks the backend of the prompt or resource template that `ref` names.
pub async fn complete(engine: &Engine, caller: &Caller, params: &RawValue) -> Answer {
    let snapshot = engine.snapshot();
    let view = snapshot.view(caller.identity);
    let parsed =
        Object::parse(params).ok().and_then(|object| Some((Object::parse(object.get("ref")?).ok()?, object)));
    let Some((reference, object)) = parsed else { return Answer::invalid("`ref` must be an object") };
    let text = |key| reference.get_str(key).unwrap_or_default();
    match &*text("type") {
        "ref/prompt" => {
            let name = text("name");
            let Some(prompt) = view.prompt(&name) else {
                return Answer::invalid(format!("Unknown prompt: {}", shown(&name)));
            };
            let target = Target::read(&snapshot, &prompt.backend, methods::COMPLETE, None);
            let renamed =
                request::renamed(&reference, "name", &prompt.definition.name).and_then(|reference| {
                    let mut edit = object.edit();
                    edit.set("ref", reference.get());
                    edit.finish()
                        .into_raw()
                        .map_err(|error| CallError::Protocol { reason: error.to_string() })
                });
            match renamed {
                Ok(params) => request::relay(engine, &snapshot, caller, target, &params).await,
                Err(error) => Answer::unanswered(&prompt.backend, &error),
            }
        }
        "ref/resource" => {
            let uri = text("uri");
            let Some(resource) = view.template(&uri).or_else(|| view.resource(&uri)) else {
                return Answer::no_resource(&uri);
            };
            let backend = resource.backend();
            let target = Target::read(&snapshot, backend, methods::COMPLETE, None);
            request::relay(engine, &snapshot, caller, target, params).await
        }
        _ => Answer::invalid("`ref.type` must be \"ref/prompt\" or \"ref/resource\""),
    }
}
