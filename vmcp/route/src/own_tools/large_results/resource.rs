//! Kept results as resources: `vmcp://results/REFERENCE`, which the envelope links to.

use serde::Serialize;
use serde_json::json;
use serde_json::value::to_raw_value;
use vmcp_config::OptimTool;
use vmcp_engine::telemetry::calls::{Origin, Outcome};
use vmcp_results::envelope::URI_PREFIX;

use super::stored;
use crate::answer::Answer;
use crate::call;
use crate::caller::CallContext;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Contents<'a> {
    uri: &'a str,
    mime_type: &'a str,
    text: &'a str,
}

/// Returns the reference in a URI of a kept result, if such results are kept here.
pub(crate) fn reference<'a>(context: CallContext<'_>, uri: &'a str) -> Option<&'a str> {
    let optimizer = &context.snapshot.config.optimizer;
    let keeps = optimizer.enabled && optimizer.large_results.enabled;
    uri.strip_prefix(URI_PREFIX).filter(|_| keeps)
}

/// Answers `resources/read` of a kept result; `None` if the caller has none under this URI. Who may read it so
/// may also call read_result, by the policy.
pub(crate) async fn read(context: CallContext<'_>, uri: &str, reference: &str) -> Option<Answer> {
    let arguments = json!({ "result_ref": reference }).to_string();
    call::authorize_own(context, OptimTool::ReadResult, Some(&arguments)).ok()?;
    let mut recorder = context.start_record(Origin::Own(OptimTool::ReadResult));
    recorder.keep_arguments(Some(&arguments));
    let Some(stored) = stored(context, reference).await else {
        recorder.settle(Outcome::ToolError);
        return None;
    };
    let content = &stored.content;
    let contents = [Contents { uri, mime_type: content.media_type(), text: content.text() }];
    recorder.settle(Outcome::Ok);
    Some(Answer::own(to_raw_value(&json!({ "contents": contents })).unwrap_or_default()))
}
