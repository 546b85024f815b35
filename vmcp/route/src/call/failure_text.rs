//! Text of a failed call, for the metrics of its tool: the first words of the error that a model reads.

use serde::Deserialize;
use serde_json::value::RawValue;
use vmcp_backend::{Backend, CallError, Response, RpcOutcome};
use vmcp_config::sanitize;
use vmcp_json::object::Object;

/// Most characters of an error's text that are kept.
const MAX_CHARACTERS: usize = 300;
/// Bytes of an error result above which it is not read for its text.
const MAX_READ_BYTES: usize = 64 * 1024;

/// Returns the text of a failure, without the secrets that the backend was configured with and shortened;
/// `None` for a success.
pub(super) fn of(answer: &Result<Response, CallError>, backend: Option<&Backend>) -> Option<Box<str>> {
    let text = match answer {
        Ok(Response { outcome: RpcOutcome::Result(result), .. }) if result.is_tool_error() => {
            (result.size() <= MAX_READ_BYTES).then(|| first_text(result)).flatten()?
        }
        Ok(Response { outcome: RpcOutcome::Error(error), .. }) => {
            Object::parse(error).ok()?.get_str("message")?.into_owned()
        }
        Ok(_) => return None,
        // For operators: with the parts that clients may not see.
        Err(error) => error.detailed(),
    };
    let text = backend.map_or_else(|| text.clone(), |backend| backend.mask_secrets(&text));
    let shortened: String = text.chars().take(MAX_CHARACTERS).collect();
    Some(sanitize::text(&shortened).into())
}

/// Returns the first text block of a result.
pub(crate) fn first_text(result: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Content {
        content: Vec<Block>,
    }
    #[derive(Deserialize)]
    struct Block {
        text: Option<String>,
    }
    let content = serde_json::from_str::<Content>(result.get()).ok()?.content;
    content.into_iter().find_map(|block| block.text)
}
