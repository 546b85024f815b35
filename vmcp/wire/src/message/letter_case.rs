//! Letter case of keys. Go's `encoding/json` and the web defaults of .NET take `Name` for `name`, and of both
//! the last one counts. A request with `"name":"permitted","Name":"forbidden"` would be judged by one name
//! and run under the other. Requests therefore write reserved keys in their own letter case only, and so do
//! the messages of backends: clients in Go and .NET read definitions, questions and results in the same way.

use std::borrow::Cow;

use super::keys::{ELICITATION_ID, INPUT_REQUESTS, INPUT_RESPONSES, REQUEST_STATE, RESULT_TYPE};
use super::meta;

/// Keys of parameters that a gateway judges, changes or removes.
pub(super) const PARAMS: [&str; 8] =
    ["name", "arguments", "uri", "taskId", "task", meta::META, INPUT_RESPONSES, REQUEST_STATE];
/// Parameters of `completion/complete`: objects with the keys [`COMPLETION_MEMBERS`].
pub(super) const COMPLETION: [&str; 4] = ["ref", "argument", "context", meta::META];
/// Keys of metadata that a gateway changes or removes.
pub(super) const META: [&str; 7] = [
    meta::PROGRESS_TOKEN,
    meta::PROTOCOL_VERSION,
    meta::CLIENT_INFO,
    meta::CLIENT_CAPABILITIES,
    meta::LOG_LEVEL,
    meta::SUBSCRIPTION_ID,
    meta::RELATED_TASK,
];
/// Keys of the reference, the argument and the context of `completion/complete`.
pub(super) const COMPLETION_MEMBERS: [&str; 5] = ["type", "name", "uri", "value", "arguments"];
/// Keys of definitions that a gateway reads, changes or judges.
pub const DEFINITION: [&str; 12] = [
    "name",
    "title",
    "description",
    "inputSchema",
    "outputSchema",
    "annotations",
    "icons",
    "execution",
    "arguments",
    "uri",
    "uriTemplate",
    meta::META,
];
/// Keys of a question that tell a person what is asked, and which server asks.
pub const QUESTION: [&str; 8] =
    ["message", "systemPrompt", "messages", "mode", "url", "requestedSchema", ELICITATION_ID, meta::META];
/// Keys by which a result asks the client.
pub const ASKING_RESULT: [&str; 2] = [RESULT_TYPE, INPUT_REQUESTS];

/// Returns the first key that spells a reserved key in another letter case, and that reserved key.
///
/// ```
/// use vmcp_wire::letter_case::{QUESTION, first_misspelled};
///
/// assert_eq!(first_misspelled(["mode", "Message"], &QUESTION), Some(("Message", "message")));
/// assert_eq!(first_misspelled(["mode", "message", "Other"], &QUESTION), None);
/// ```
#[must_use]
pub fn first_misspelled<'k>(
    keys: impl IntoIterator<Item = &'k str>,
    reserved: &[&'static str],
) -> Option<(&'k str, &'static str)> {
    keys.into_iter().find_map(|key| Some((key, misspelled(key, reserved)?)))
}

/// Returns the reserved key that `written` spells in another letter case.
pub(super) fn misspelled(written: &str, reserved: &[&'static str]) -> Option<&'static str> {
    if reserved.contains(&written) {
        return None;
    }
    // Most keys are ASCII, and differ in their length from the reserved ones.
    let written = if written.is_ascii() { Cow::Borrowed(written) } else { folded(written) };
    reserved.iter().copied().find(|key| key.eq_ignore_ascii_case(&written))
}

/// Returns a key in one letter case: keys that some parser takes for the same have the same form. The Kelvin
/// sign is a `k`, and the long s an `s`.
///
/// ```
/// use vmcp_wire::letter_case::folded;
///
/// assert_eq!(folded("ta\u{17f}\u{212a}Id"), "taskid");
/// assert_eq!(folded("path"), "path");
/// ```
#[must_use]
pub fn folded(key: &str) -> Cow<'_, str> {
    if key.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) {
        return Cow::Borrowed(key);
    }
    Cow::Owned(key.to_uppercase().to_lowercase())
}
