//! `prompts/get`.

use serde_json::value::RawValue;
use vmcp_wire::methods;

use super::answer::Answer;
use super::backend::request::{self, Target};
use super::caller::Caller;
use super::subject::{Subject, shown};
use crate::engine::Engine;

/// `prompts/get`.
pub async fn get_prompt(engine: &Engine, caller: &Caller, params: &RawValue) -> Answer {
    let params = match Subject::parse(params, "name") {
        Ok(params) => params,
        Err(error) => return Answer::error(&error),
    };
    let snapshot = engine.snapshot();
    let Some(prompt) = snapshot.view(caller.identity).prompt(&params.subject) else {
        return Answer::invalid(format!("Unknown prompt: {}", shown(&params.subject)));
    };
    let original = &prompt.definition.name;
    let target = Target::read(&snapshot, &prompt.backend, methods::PROMPTS_GET, Some(original));
    match request::renamed(&params.object, "name", original) {
        Ok(params) => request::relay(engine, &snapshot, caller, target, &params).await,
        Err(error) => Answer::unanswered(&prompt.backend, &error),
    }
}
