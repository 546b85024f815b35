//! Letter case of keys. Go's `encoding/json` and the web defaults of .NET take `Name` for `name`, and of both
//! the last one counts. A request with `"name":"permitted","Name":"forbidden"` would be judged by one name
//! and run under the other. Requests therefore write reserved keys in their own letter case only.

use std::borrow::Cow;

use super::keys::{INPUT_RESPONSES, REQUEST_STATE};
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
