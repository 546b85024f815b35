//! Tools that composite tools of a server miss, as the server's condition `CompositeToolsListed` has them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::runtime::is_true;

/// Type of the condition.
pub(crate) const KIND: &str = "CompositeToolsListed";
/// Reason of composite tools whose steps call missing tools.
pub(crate) const TOOL_NOT_FOUND: &str = "ToolNotFound";
/// Text between two composite tools of a message.
pub(crate) const SEPARATOR: &str = " | ";
/// Text between a composite tool and the tools that it misses.
pub(crate) const CALLS: &str = " calls ";

/// Returns what the condition of a server says of one composite tool that clients miss.
pub(super) fn missing_tools<'a>(conditions: &'a [Condition], name: &str) -> Option<&'a str> {
    let condition = conditions.iter().find(|condition| condition.type_ == KIND)?;
    if is_true(std::slice::from_ref(condition), KIND) || condition.reason != TOOL_NOT_FOUND {
        return None;
    }
    let mut named = condition.message.split(SEPARATOR);
    named.find(|entry| entry.strip_prefix(name).is_some_and(|rest| rest.starts_with(CALLS)))
}
