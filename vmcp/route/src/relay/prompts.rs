//! `prompts/get`.

use std::time::Instant;

use vmcp_wire::methods;
use vmcp_wire::owned::OwnedParams;

use crate::answer::Answer;
use crate::call::{self, hidden};
use crate::caller::CallContext;
use crate::router::{self, BackendTarget};
use crate::subject::{self, shown};
use vmcp_engine::access::policy::Item;
use vmcp_engine::telemetry::calls::Origin;

/// Handles `prompts/get`.
pub async fn get_prompt(context: CallContext<'_>, params: &OwnedParams) -> Answer {
    let begun = Instant::now();
    let subject = match subject::subject(params, "name") {
        Ok(subject) => subject,
        Err(error) => return Answer::error(&error),
    };
    let unknown = || Answer::invalid(format!("Unknown prompt: {}", shown(&subject)));
    let Some(prompt) = router::prompt(context, &subject) else {
        hidden::record_prompt(context, &subject, methods::PROMPTS_GET);
        hidden::hold(context, begun).await;
        return unknown();
    };
    let (backend, item) = (&prompt.backend, Item::Prompt(prompt));
    let target = BackendTarget::read(context.snapshot, backend, methods::PROMPTS_GET, item);
    let record = context.start_record(Origin::Client);
    let Ok(call) = call::authorize(context, record, target, params.get("arguments")) else {
        hidden::hold(context, begun).await;
        return unknown();
    };
    call.relay(params).await
}
