//! What `GET /admin/status` says: written by the server, read by the command line and the operator.
//!
//! A reader takes defaults for what it misses and ignores what it does not know, so that a server and its reader may be of
//! different versions.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::Problem;

/// The name by which a server of ours tells itself from whatever else may listen on a port.
pub const NAME: &str = "vmcp";

/// The answer as a whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatusReport {
    /// Always [`NAME`].
    pub name: String,
    /// The server's own version.
    pub version: String,
    /// The server's process.
    pub pid: u32,
    /// How long it has run.
    pub uptime_seconds: u64,
    /// Moves with every snapshot that requests read.
    pub generation: u64,
    /// Open connections of clients.
    pub connections: u64,
    /// Whether the configuration file is in force.
    pub configuration: ConfigurationStatus,
    /// Every backend, disabled ones included, sorted by name.
    pub backends: Vec<BackendStatus>,
    /// Tools that clients can find and call.
    pub tools: usize,
    /// Tools that `tools/list` shows, those of the optimizer included.
    pub listed_tools: usize,
    /// Tokens that a list of all tools would cost a client.
    pub baseline_tokens: u64,
    /// How embedding is doing.
    pub embeddings: EmbeddingStatus,
    /// Definitions that were renamed or left out, and why.
    pub issues: Vec<String>,
}

/// What has become of the configuration file since the start. Empty where no file is followed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ConfigurationStatus {
    /// [`digest`] of the file's text that is in force.
    pub digest: String,
    /// When it came in force.
    #[serde(with = "rfc3339")]
    pub applied_at: Option<SystemTime>,
    /// Changes that were put in force after the start.
    pub applied: u64,
    /// Changes that were refused.
    pub refusals: u64,
    /// Why the newest text, or the newest content of a file that it refers to, is not in force, if it is not.
    pub refused: Option<RefusedConfiguration>,
    /// Settings that differ from those at the start and take effect after a restart.
    pub needs_restart: Vec<String>,
}

/// A configuration that was refused; the one before it stays in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RefusedConfiguration {
    /// [`digest`] of the text that was refused.
    pub digest: String,
    /// Everything that is wrong, as text.
    pub message: String,
    /// Everything that is wrong, one by one.
    pub problems: Vec<Problem>,
    /// When it was refused.
    #[serde(with = "rfc3339")]
    pub at: Option<SystemTime>,
}

/// SHA-256 of a configuration file's text, as 64 lower-case hexadecimal digits.
pub fn digest(text: &str) -> String {
    hex::encode(Sha256::digest(text))
}

/// How a backend is doing. `last_error` is for operators: it may name hosts and show what a server printed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BackendStatus {
    /// The configured name.
    pub name: String,
    /// `streamable-http`, `sse` or `stdio`.
    pub transport: String,
    /// Where the connection stands.
    pub state: BackendState,
    /// Since when it stands there; absent while nothing has happened yet.
    #[serde(with = "rfc3339")]
    pub since: Option<SystemTime>,
    /// `modern` or `legacy`; absent until the first connection.
    pub era: Option<String>,
    /// The protocol revision spoken, e.g. `2026-07-28`.
    pub revision: Option<String>,
    /// `serverInfo.name`, self-reported.
    pub server_name: Option<String>,
    /// `serverInfo.version`, self-reported.
    pub server_version: Option<String>,
    /// When the present connection was made.
    #[serde(with = "rfc3339")]
    pub connected_at: Option<SystemTime>,
    /// The last failure to connect, to list or to call; cleared by the next connection or listing.
    pub last_error: Option<String>,
    /// Whether calls are let through.
    pub breaker: BreakerPosition,
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
    #[serde(with = "rfc3339")]
    pub last_refresh: Option<SystemTime>,
    /// How the last listing differed from the one before; absent until there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<DefinitionChanges>,
}

/// Where the connection to a backend stands (GOB-16).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendState {
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

/// What a backend's circuit breaker does with the next call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BreakerPosition {
    /// Calls go through.
    #[default]
    Closed,
    /// Calls are refused.
    Open,
    /// One call may go through, or is under way; the others are refused.
    HalfOpen,
}

/// How a backend's listing differs from the one before it, which may be from an earlier run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DefinitionChanges {
    /// Tools that were not there before.
    pub added: usize,
    /// Tools whose definition differs.
    pub updated: usize,
    /// Tools that are gone.
    pub removed: usize,
    /// Tools that stayed as they were.
    pub unchanged: usize,
    /// When this was noticed.
    #[serde(with = "rfc3339")]
    pub at: Option<SystemTime>,
}

/// How embedding is doing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EmbeddingStatus {
    /// As configured: `local`, `tei`, `openai`, `none`.
    pub provider: String,
    /// Provider and model, once known.
    pub model: Option<String>,
    /// Tools that want a vector.
    pub wanted: usize,
    /// Tools that have one.
    pub embedded: usize,
    /// How it is going.
    pub state: EmbeddingState,
    /// Why the provider fails, while it does. It may name an address: for operators.
    pub reason: Option<String>,
    /// When it is tried again, while it fails.
    pub retry_in_seconds: Option<u64>,
    /// What to do about it, in one line.
    pub hint: Option<String>,
}

/// How embedding is going.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EmbeddingState {
    /// There is no provider, by choice: searches go by keywords.
    #[default]
    Off,
    /// Every tool has its vector.
    Ready,
    /// Vectors are being made; searches use those that exist.
    Working,
    /// The provider fails; searches go by keywords.
    Degraded,
}

impl BackendState {
    /// The word that stands for it in the report.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Configured => "configured",
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Failed => "failed",
        }
    }
}

impl EmbeddingState {
    /// The word that stands for it in the report.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Ready => "ready",
            Self::Working => "working",
            Self::Degraded => "degraded",
        }
    }
}

impl DefinitionChanges {
    /// Whether anything changed.
    pub fn any(&self) -> bool {
        self.added + self.updated + self.removed > 0
    }
}

/// UTC, to the second.
mod rfc3339 {
    use std::time::SystemTime;

    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    #[expect(clippy::ref_option, reason = "the signature that serde calls")]
    pub(super) fn serialize<S: Serializer>(
        time: &Option<SystemTime>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(|time| humantime::format_rfc3339_seconds(time).to_string()).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<SystemTime>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| humantime::parse_rfc3339(&text).map_err(de::Error::custom)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let at = Some(SystemTime::UNIX_EPOCH + Duration::from_hours(500_000));
        let report = StatusReport {
            name: NAME.to_owned(),
            configuration: ConfigurationStatus {
                digest: digest("backends: []\n"),
                applied_at: at,
                refused: Some(RefusedConfiguration { at, ..RefusedConfiguration::default() }),
                ..ConfigurationStatus::default()
            },
            backends: vec![BackendStatus {
                name: "time".to_owned(),
                state: BackendState::Connected,
                since: at,
                breaker: BreakerPosition::HalfOpen,
                changes: Some(DefinitionChanges { added: 2, at, ..DefinitionChanges::default() }),
                ..BackendStatus::default()
            }],
            embeddings: EmbeddingStatus { state: EmbeddingState::Degraded, ..EmbeddingStatus::default() },
            ..StatusReport::default()
        };
        let written = serde_json::to_value(&report).unwrap();
        assert_eq!(written["configuration"]["appliedAt"], "2027-01-15T08:00:00Z");
        assert_eq!(written["backends"][0]["breaker"], "half-open");
        for (shown, word) in [
            (&written["backends"][0]["state"], BackendState::Connected.as_str()),
            (&written["embeddings"]["state"], EmbeddingState::Degraded.as_str()),
        ] {
            assert_eq!(shown, word);
        }
        assert_eq!(serde_json::from_value::<StatusReport>(written).unwrap(), report);
    }

    #[test]
    fn a_report_of_another_version_can_be_read() {
        let report =
            json!({"name": "vmcp", "novelty": 1, "backends": [{"name": "a", "state": "failed", "x": {}}]});
        let report: StatusReport = serde_json::from_value(report).unwrap();
        assert_eq!(report.backends[0].state, BackendState::Failed);
        assert_eq!(report.configuration, ConfigurationStatus::default());
    }

    #[test]
    fn the_digest_is_that_of_sha256sum() {
        assert_eq!(digest("a\n"), "87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7");
    }
}
