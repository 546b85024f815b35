//! `completion/complete`: completes an argument of a prompt or of a resource template.

use std::time::Instant;

use vmcp_json::object::Object;
use vmcp_wire::methods;
use vmcp_wire::owned::OwnedParams;

use crate::answer::Answer;
use crate::call::{self, hidden};
use crate::caller::CallContext;
use crate::router::{self, BackendTarget};
use crate::subject::shown;
use vmcp_engine::access::policy::Item;
use vmcp_engine::telemetry::calls::Origin;

/// Handles `completion/complete`: asks the backend of the prompt or resource template that `ref` names.
pub async fn complete(context: CallContext<'_>, params: &OwnedParams) -> Answer {
    let begun = Instant::now();
    let Some(reference) = params.get("ref").and_then(|text| Object::parse_valid(text).ok()) else {
        return Answer::invalid("`ref` must be an object");
    };
    let text = |key| reference.get_str(key).unwrap_or_default();
    let (name, uri, view) = (text("name"), text("uri"), context.view);
    let (found, unknown): (_, &(dyn Fn() -> Answer + Sync)) = match &*text("type") {
        "ref/prompt" => {
            let found = router::prompt(context, &name).map(|prompt| (&prompt.backend, Item::Prompt(prompt)));
            (found, &|| Answer::invalid(format!("Unknown prompt: {}", shown(&name))))
        }
        "ref/resource" => {
            let found = view.template(&uri).or_else(|| view.resource(&uri));
            (found.map(|found| (found.backend(), Item::Resource(&uri))), &|| Answer::no_resource(&uri))
        }
        _ => return Answer::invalid("`ref.type` must be \"ref/prompt\" or \"ref/resource\""),
    };
    let Some((backend, item)) = found else {
        match &*text("type") {
            "ref/prompt" => hidden::record_prompt(context, &name, methods::COMPLETE),
            _ => hidden::record_resource(context, &uri, methods::COMPLETE),
        }
        hidden::hold(context, begun).await;
        return unknown();
    };
    let target = BackendTarget::read(context.snapshot, backend, methods::COMPLETE, item);
    let record = context.start_record(Origin::Client);
    // The value to complete is no argument of a call yet.
    let Ok(call) = call::authorize(context, record, target, None) else {
        hidden::hold(context, begun).await;
        return unknown();
    };
    call.relay(params).await
}
