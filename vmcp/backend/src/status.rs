//! What an operator sees of a backend.

use std::time::SystemTime;

use serde::{Serialize, Serializer};

use crate::breaker;

/// Where the connection stands (GOB-16).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Known, but nobody has needed it yet.
    #[default]
    Configured,
    /// An attempt, or the pause before the next one, is under way.
    Connecting,
    /// Calls go through.
    Connected,
    /// All attempts failed; tried again on use and on a timer.
    Failed,
}

/// A snapshot for `list_mcp_servers`, `/admin` and logs. `last_error` is for operators: it may name hosts and show
/// what a server printed.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// The configured name.
    pub name: String,
    /// `streamable-http`, `sse` or `stdio`.
    pub transport: &'static str,
    /// Where the connection stands.
    pub state: State,
    /// `modern` or `legacy`; absent until the first connection.
    pub era: Option<&'static str>,
    /// The protocol revision spoken, e.g. `2026-07-28`.
    pub revision: Option<&'static str>,
    /// `serverInfo.name`, self-reported.
    pub server_name: Option<String>,
    /// `serverInfo.version`, self-reported.
    pub server_version: Option<String>,
    /// When the present connection was made.
    #[serde(serialize_with = "rfc3339")]
    pub connected_at: Option<SystemTime>,
    /// The last failure to connect, to list or to call; cleared by the next connection or listing.
    pub last_error: Option<String>,
    /// Whether calls are let through.
    pub breaker: breaker::Position,
    /// Tools listed.
    pub tools: usize,
    /// Resources listed, without templates.
    pub resources: usize,
    /// Resource templates listed.
    pub templates: usize,
    /// Prompts listed.
    pub prompts: usize,
    /// Definitions that could not be used.
    pub rejected: usize,
    /// Connections made after the first one.
    pub restarts: u32,
    /// Sessions kept there for clients.
    pub sessions: usize,
    /// When the definitions were last listed.
    #[serde(serialize_with = "rfc3339")]
    pub last_refresh: Option<SystemTime>,
}

/// UTC, to the second.
#[expect(clippy::ref_option, reason = "the signature that serde calls")]
fn rfc3339<S: Serializer>(time: &Option<SystemTime>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| humantime::format_rfc3339_seconds(time).to_string()).serialize(serializer)
}
