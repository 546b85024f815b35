//! Tools that send notifications while they work.

use std::time::Duration;

use rmcp::model::{CallToolResult, LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam};
use serde_json::json;

use super::{ToolCall, text};
use crate::stop::Stop;

/// Pause between two notifications, so that a client sees one before the next.
const PAUSE: Duration = Duration::from_millis(50);

/// Answers after a tenth of a second.
pub(crate) async fn pause() -> CallToolResult {
    tokio::time::sleep(2 * PAUSE).await;
    text("Done.")
}

/// Sends progress 0, 50 and 100, if the client gave a token.
pub(crate) async fn progress(call: &ToolCall<'_>) -> Result<CallToolResult, Stop> {
    let token = call.context.meta.get_progress_token();
    for (progress, message) in [(0.0, "begun"), (50.0, "half done"), (100.0, "done")] {
        if let Some(token) = &token {
            let params = ProgressNotificationParam::new(token.clone(), progress);
            call.context.peer.notify_progress(params.with_total(100.0).with_message(message)).await?;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(text("Done."))
}

/// Sends messages at the level `info`, if the client wants them: a modern one says so with each request, a
/// legacy one gets them unless it asked for less.
pub(crate) async fn log(call: &ToolCall<'_>, messages: &[&str]) -> Result<CallToolResult, Stop> {
    let wanted = match (call.dialogue.modern(), call.context.meta.log_level()) {
        (true, level) => level.is_some_and(includes_info),
        (false, _) => call.server.session.level.lock().is_none_or(includes_info),
    };
    for message in messages {
        if wanted {
            let params = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(message));
            call.context.peer.notify_logging_message(params.with_logger("fixture")).await?;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(text("Done."))
}

fn includes_info(level: LoggingLevel) -> bool {
    matches!(level, LoggingLevel::Debug | LoggingLevel::Info)
}
