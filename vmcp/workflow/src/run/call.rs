//! The calls of one step: with its time limit, and again after a failure if it says so.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::{Answers, CallEnd, ToolCall, ToolCaller};
use crate::definition::Call;

/// The longest pause, as a multiple of the first.
const MAX_PAUSE: u32 = 60;
/// Failure of an item of a `forEach` whose time is over.
pub(super) const OVER: &str = "no result within the time of the step";

/// Calls the tool of a step until it answers, or the calls or the time are over. `left`: the time of the step
/// around the call.
pub(super) async fn call(
    caller: &impl ToolCaller,
    call: &Call,
    step: String,
    arguments: serde_json::Map<String, serde_json::Value>,
    answers: Option<Answers>,
    left: Option<Duration>,
) -> CallEnd {
    let most = left.map_or(call.timeout, |left| left.min(call.timeout));
    let request = ToolCall { step, tool: call.tool.clone(), arguments, deadline: most, answers };
    let calls = async {
        let mut pause = call.retry_delay;
        for _ in 0..call.retries {
            match caller.call(request.clone()).await {
                CallEnd::Failed(_) => sleep(pause).await,
                end => return end,
            }
            pause = (pause * 2).min(call.retry_delay * MAX_PAUSE);
        }
        caller.call(request).await
    };
    let late = || {
        let is_of_step = most < call.timeout;
        CallEnd::Failed(if is_of_step {
            OVER.to_owned()
        } else {
            format!("no result within {}", shown(most))
        })
    };
    timeout(most, calls).await.unwrap_or_else(|_| late())
}

/// Writes a time limit as people do.
pub(super) fn shown(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}
