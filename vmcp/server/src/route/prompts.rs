//! `prompts/get`.

use serde_json::value::RawValue;
use vmcp_wire::methods;

use super::answer::Answer;
use super::call::{self, Denied};
use super::caller::CallContext;
use super::router::{self, BackendTarget};
use super::subject::{Subject, shown};
use crate::access::policy::Item;
use crate::telemetry::calls::Origin;

/// Handles `prompts/get`.
pub async fn get_prompt(context: CallContext<'_>, params: &RawValue) -> Answer {
    let Subject { object, subject } = match Subject::parse(params, "name") {
        Ok(parsed) => parsed,
        Err(error) => return Answer::error(&error),
    };
    let unknown = || Answer::invalid(format!("Unknown prompt: {}", shown(&subject)));
    let Some(prompt) = router::prompt(context, &subject) else { return unknown() };
    let (backend, item) = (&prompt.backend, Item::Prompt(prompt));
    let target = BackendTarget::read(context.snapshot, backend, methods::PROMPTS_GET, item);
    let record = context.start_record(Origin::Client);
    match call::authorize(context, record, target, object.text("arguments")) {
        Ok(call) => call.relay(params).await,
        Err(Denied) => unknown(),
    }
}
