//! `prompts/get`.

use vmcp_wire::methods;
use vmcp_wire::owned::OwnedParams;

use super::answer::Answer;
use super::call::{self, Denied, hidden};
use super::caller::CallContext;
use super::router::{self, BackendTarget};
use super::subject::{self, shown};
use vmcp_engine::access::policy::Item;
use vmcp_engine::telemetry::calls::Origin;

/// Handles `prompts/get`.
pub async fn get_prompt(context: CallContext<'_>, params: &OwnedParams) -> Answer {
    let subject = match subject::subject(params, "name") {
        Ok(subject) => subject,
        Err(error) => return Answer::error(&error),
    };
    let unknown = || Answer::invalid(format!("Unknown prompt: {}", shown(&subject)));
    let Some(prompt) = router::prompt(context, &subject) else {
        hidden::record_prompt(context, &subject, methods::PROMPTS_GET);
        return unknown();
    };
    let (backend, item) = (&prompt.backend, Item::Prompt(prompt));
    let target = BackendTarget::read(context.snapshot, backend, methods::PROMPTS_GET, item);
    let record = context.start_record(Origin::Client);
    match call::authorize(context, record, target, params.get("arguments")) {
        Ok(call) => call.relay(params).await,
        Err(Denied) => unknown(),
    }
}
