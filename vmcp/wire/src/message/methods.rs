//! The methods of MCP by name, and their properties: the eras that have them, if their results are cacheable,
//! if they may require input.

use crate::message::era::Era;

/// Opens a legacy session.
pub const INITIALIZE: &str = "initialize";
/// Ends the legacy handshake.
pub const INITIALIZED: &str = "notifications/initialized";
/// Describes a modern server.
pub const DISCOVER: &str = "server/discover";
/// Opens a modern stream of changes.
pub const LISTEN: &str = "subscriptions/listen";
/// The first message of such a stream.
pub const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
/// Checks that the other side is alive (legacy).
pub const PING: &str = "ping";
/// Sets the log level of a session (legacy).
pub const SET_LEVEL: &str = "logging/setLevel";
/// Lists tools.
pub const TOOLS_LIST: &str = "tools/list";
/// Calls a tool.
pub const TOOLS_CALL: &str = "tools/call";
/// Lists prompts.
pub const PROMPTS_LIST: &str = "prompts/list";
/// Renders a prompt.
pub const PROMPTS_GET: &str = "prompts/get";
/// Lists resources.
pub const RESOURCES_LIST: &str = "resources/list";
/// Lists resource templates.
pub const TEMPLATES_LIST: &str = "resources/templates/list";
/// Reads a resource.
pub const RESOURCES_READ: &str = "resources/read";
/// Asks for updates of a resource (legacy).
pub const SUBSCRIBE: &str = "resources/subscribe";
/// Ends the updates of a resource (legacy).
pub const UNSUBSCRIBE: &str = "resources/unsubscribe";
/// Completes an argument.
pub const COMPLETE: &str = "completion/complete";
/// Asks a client for its user's input.
pub const ELICIT: &str = "elicitation/create";
/// Asks a client for a model's answer.
pub const SAMPLE: &str = "sampling/createMessage";
/// Asks a client for its roots.
pub const ROOTS_LIST: &str = "roots/list";
/// Reads the state of a task.
pub const TASKS_GET: &str = "tasks/get";
/// Waits for a task and fetches its result (legacy).
pub const TASKS_RESULT: &str = "tasks/result";
/// Lists tasks (legacy).
pub const TASKS_LIST: &str = "tasks/list";
/// Gives a task the input that it asks for (modern).
pub const TASKS_UPDATE: &str = "tasks/update";
/// Cancels a task.
pub const TASKS_CANCEL: &str = "tasks/cancel";
/// A task has another status (legacy).
pub const TASK_STATUS: &str = "notifications/tasks/status";
/// A task has another status (modern).
pub const TASK_CHANGED: &str = "notifications/tasks";
/// The client's roots have changed (legacy).
pub const ROOTS_CHANGED: &str = "notifications/roots/list_changed";
/// A user has done what a URL was shown for (legacy).
pub const ELICITATION_COMPLETE: &str = "notifications/elicitation/complete";
/// Cancels a request.
pub const CANCELLED: &str = "notifications/cancelled";
/// Reports progress.
pub const PROGRESS: &str = "notifications/progress";
/// Carries a log record.
pub const LOG_MESSAGE: &str = "notifications/message";
/// The tools have changed.
pub const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
/// The prompts have changed.
pub const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";
/// The resources have changed.
pub const RESOURCES_CHANGED: &str = "notifications/resources/list_changed";
/// A resource has new content.
pub const RESOURCE_UPDATED: &str = "notifications/resources/updated";

/// True if the method exists in the era. A method that neither era defines belongs to an extension or a
/// vendor and may exist in both.
#[must_use]
pub fn exists(method: &str, era: Era) -> bool {
    let only = match method {
        DISCOVER | LISTEN | ACKNOWLEDGED | TASKS_UPDATE | TASK_CHANGED => Era::Modern,
        INITIALIZE | INITIALIZED | PING | SET_LEVEL | SUBSCRIBE | UNSUBSCRIBE
        // Modern servers ask for these in their results instead.
        | ELICIT | SAMPLE | ROOTS_LIST
        | ROOTS_CHANGED | ELICITATION_COMPLETE
        // The experimental tasks of 2025-11-25; the extension has none of these.
        | TASKS_LIST | TASKS_RESULT | TASK_STATUS => Era::Legacy,
        _ => return true,
    };
    only == era
}

/// Requests that the protocol itself defines, in any revision; the frequent ones first.
const REQUESTS: [&str; 23] = [
    TOOLS_CALL,
    TOOLS_LIST,
    RESOURCES_READ,
    PROMPTS_GET,
    PROMPTS_LIST,
    RESOURCES_LIST,
    TEMPLATES_LIST,
    INITIALIZE,
    DISCOVER,
    LISTEN,
    PING,
    SET_LEVEL,
    COMPLETE,
    SUBSCRIBE,
    UNSUBSCRIBE,
    TASKS_GET,
    TASKS_RESULT,
    TASKS_LIST,
    TASKS_UPDATE,
    TASKS_CANCEL,
    ELICIT,
    SAMPLE,
    ROOTS_LIST,
];

/// Returns the name of a request that the protocol itself defines, in any revision.
#[must_use]
pub fn core_request(method: &str) -> Option<&'static str> {
    REQUESTS.iter().copied().find(|known| *known == method)
}

/// Notifications that the protocol itself defines, in any revision.
const NOTIFICATIONS: [&str; 13] = [
    CANCELLED,
    PROGRESS,
    INITIALIZED,
    LOG_MESSAGE,
    TOOLS_CHANGED,
    PROMPTS_CHANGED,
    RESOURCES_CHANGED,
    RESOURCE_UPDATED,
    ROOTS_CHANGED,
    ACKNOWLEDGED,
    ELICITATION_COMPLETE,
    TASK_STATUS,
    TASK_CHANGED,
];

/// Returns the name of a notification that the protocol itself defines, in any revision.
#[must_use]
pub fn core_notification(method: &str) -> Option<&'static str> {
    NOTIFICATIONS.iter().copied().find(|known| *known == method)
}

/// True if the protocol itself defines the method, in any revision; others belong to extensions and vendors.
#[must_use]
pub fn is_core(method: &str) -> bool {
    core_request(method).is_some() || method.starts_with("notifications/")
}

/// True if complete results of the method must carry `ttlMs` and `cacheScope` in the modern era.
#[must_use]
pub fn is_cacheable(method: &str) -> bool {
    matches!(method, DISCOVER | TOOLS_LIST | PROMPTS_LIST | RESOURCES_LIST | TEMPLATES_LIST | RESOURCES_READ)
}

/// True if a modern server may answer the method with `input_required`.
#[must_use]
pub fn may_require_input(method: &str) -> bool {
    matches!(method, TOOLS_CALL | PROMPTS_GET | RESOURCES_READ)
}
