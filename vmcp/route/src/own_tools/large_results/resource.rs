//! Kept results as resources: `vmcp://results/REFERENCE`, which the envelope links to.

use bytes::Bytes;
use serde::Serialize;
use serde_json::json;
use vmcp_backend::ByteBudget;
use vmcp_config::OptimTool;
use vmcp_engine::telemetry::calls::{Origin, Outcome};
use vmcp_results::store::StoredResult;
use vmcp_wire::codes;
use vmcp_wire::era::Era;
use vmcp_wire::payload::{self, Reply, Scanner};
use vmcp_wire::rpc::RpcError;

use super::{Unread, on_stored};
use crate::answer::{Answer, Content};
use crate::call;
use crate::caller::CallContext;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Contents<'a> {
    uri: &'a str,
    mime_type: &'a str,
    text: &'a str,
}

/// Answers `resources/read` of a kept result; `None` if the caller has none under this URI. The policy must
/// allow read_result.
pub(crate) async fn read(context: CallContext<'_>, uri: &str, reference: &str) -> Option<Answer> {
    let arguments = json!({ "result_ref": reference }).to_string();
    call::authorize_own(context, OptimTool::ReadResult, Some(&arguments)).ok()?;
    let mut recorder = context.start_record(Origin::Own(OptimTool::ReadResult));
    recorder.keep_arguments(Some(&arguments));
    if !recorder.begins().await {
        recorder.settle(Outcome::ToolError);
        return Some(Answer::error(&RpcError::new(codes::INTERNAL_ERROR, call::UNRECORDED)));
    }
    let (budget, named) = (context.engine.byte_budget().clone(), uri.to_owned());
    let work = move |stored: &StoredResult| {
        let kept = &stored.content;
        let contents = [Contents { uri: &named, mime_type: kept.media_type(), text: kept.text() }];
        counted(&budget, &json!({ "contents": contents }).to_string())
    };
    let answer = on_stored(context, reference, work).await;
    recorder.settle(if matches!(answer, Ok(Ok(_))) { Outcome::Ok } else { Outcome::ToolError });
    let answer = match answer {
        Ok(answer) => answer,
        Err(Unread::Unknown) => return None,
        Err(Unread::Away) => Err(RpcError::new(codes::INTERNAL_ERROR, Unread::Away.text(context))),
    };
    Some(answer.unwrap_or_else(|error| Answer::error(&error)))
}

/// Makes the answer of a result whose bytes count in `budget` until the client has them: a slow client would
/// keep many large ones in memory.
fn counted(budget: &ByteBudget, result: &str) -> Result<Answer, RpcError> {
    let internal = |error: String| RpcError::new(codes::INTERNAL_ERROR, error);
    let message = format!(r#"{{"jsonrpc":"2.0","id":0,"result":{result}}}"#);
    let mut held = budget.begin();
    held.try_add(message.len()).map_err(|error| internal(format!("{error}; try again")))?;
    let bytes = held.attach_to(Bytes::from(message));
    let mut scanner = Scanner::default();
    let found = scanner.push(&bytes).and_then(|()| scanner.finish());
    let reply = found.ok().and_then(|found| payload::reply(bytes.into(), found, "0").ok());
    match reply {
        Some(Reply::Result(result)) => {
            Ok(Answer { content: Content::Result(result), era: Era::Legacy, pending: None })
        }
        Some(Reply::Error(_)) | None => Err(internal("the kept result cannot be sent".to_owned())),
    }
}
