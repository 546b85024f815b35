//! Report of `GET /admin/status`: written by the server, read by the command line and the operator.
//!
//! A reader takes defaults for missing keys and ignores unknown ones, so that a server and its reader may be
//! of different versions.

use std::time::SystemTime;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::problems::Problem;

/// Value of [`StatusReport::name`], by which a reader tells vmcp from any other server on the port.
pub const NAME: &str = "vmcp";

/// End of an issue about a pinned tool, after the tool's name.
pub const PINNED_TOOL_MISSING: &str = ": pinned (optimizer.pinnedTools), but no server has it";
/// Issue about a store that cannot be used, so that cache and counts end with the process.
pub const CACHE_IN_MEMORY: &str = "the cache is in memory only (optimizer.storage.dir): the log says why";

/// The report as a whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct StatusReport {
    /// Always [`NAME`].
    pub name: String,
    /// The server's own version.
    pub version: String,
    /// Process id of the server.
    pub pid: u32,
    /// Seconds since the server started.
    pub uptime_seconds: u64,
    /// Number of the snapshot that requests read; grows with each new one.
    pub generation: u64,
    /// Open connections of clients.
    pub connections: u64,
    /// State of the configuration file: the text in force, and the last refusal.
    pub configuration: ConfigurationStatus,
    /// Every backend, disabled ones included, sorted by name.
    pub backends: Vec<BackendStatus>,
    /// Tools that clients can find and call.
    pub tools: usize,
    /// Tools that `tools/list` shows, those of the optimizer included.
    pub listed_tools: usize,
    /// Tokens that a list of all tools would cost a client.
    pub baseline_tokens: u64,
    /// State of the embedding of tools.
    pub embeddings: EmbeddingStatus,
    /// State of the re-ranking service; absent without `optimizer.rerank`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rerank: Option<RerankStatus>,
    /// Identity providers whose tokens are accepted, in the order of the configuration.
    pub identity_providers: Vec<IdentityProviderStatus>,
    /// Definitions that were renamed or left out, each with its reason; a cache that cannot be used.
    pub issues: Vec<String>,
    /// Digest of the answer of `GET /admin/tools/trusted`; absent without a backend under
    /// `onToolChange: Quarantine`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub trusted_tools: String,
}

/// State of an identity provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct IdentityProviderStatus {
    /// Configured issuer.
    pub issuer: String,
    /// Number of keys that tokens are verified by; 0: no token that keys verify is accepted.
    pub keys: usize,
    /// Reason why the last fetch of keys, or the last introspection, failed; absent if it succeeded. Keys
    /// from before stay in use.
    pub last_error: Option<String>,
    /// Time since which fetches fail.
    #[serde(with = "rfc3339")]
    #[schemars(with = "Option<String>")]
    pub failing_since: Option<SystemTime>,
}

/// State of the configuration file since the start. Empty if no file is watched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ConfigurationStatus {
    /// [`digest`] of the text in force.
    pub digest: String,
    /// Time at which it came into force.
    #[serde(with = "rfc3339")]
    #[schemars(with = "Option<String>")]
    pub applied_at: Option<SystemTime>,
    /// Number of changes that came into force after the start.
    pub applied: u64,
    /// Number of changes that were refused.
    pub refusals: u64,
    /// Refusal of the newest text, or of the newest content of a file that it refers to; `None` if the newest
    /// is in force.
    pub refused: Option<RefusedConfiguration>,
    /// Settings that differ from those at the start and take effect after a restart.
    pub needs_restart: Vec<String>,
}

/// Configuration that was refused; the one before it stays in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct RefusedConfiguration {
    /// [`digest`] of the text that was refused.
    pub digest: String,
    /// Every mistake, as text.
    pub message: String,
    /// Every mistake, one by one.
    pub problems: Vec<Problem>,
    /// Time of the refusal.
    #[serde(with = "rfc3339")]
    #[schemars(with = "Option<String>")]
    pub at: Option<SystemTime>,
}

/// JSON schema of [`StatusReport`], from which the page of the admin API is made.
pub fn status_schema() -> serde_json::Value {
    schemars::schema_for!(StatusReport).to_value()
}

/// Returns the SHA-256 of a configuration file's text, as 64 lower-case hexadecimal digits.
pub fn digest(text: &str) -> String {
    hex::encode(Sha256::digest(text))
}

/// State of a backend. `last_error` is for operators: it may name hosts and quote what a server printed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct BackendStatus {
    /// Configured name.
    pub name: String,
    /// `streamable-http`, `sse`, `websocket` or `stdio`.
    pub transport: String,
    /// State of the connection.
    pub state: BackendState,
    /// Time of the last change of `state`; absent while nothing has happened.
    #[serde(with = "rfc3339")]
    #[schemars(with = "Option<String>")]
    pub since: Option<SystemTime>,
    /// `modern` or `legacy`; absent until the first connection.
    pub era: Option<String>,
    /// The protocol revision spoken, e.g. `2026-07-28`.
    pub revision: Option<String>,
    /// `serverInfo.name`, self-reported.
    pub server_name: Option<String>,
    /// `serverInfo.version`, self-reported.
    pub server_version: Option<String>,
    /// Kind of its credentials, e.g. `clientCredentials`, or `oauth` for a login; absent if none are fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<String>,
    /// Time at which the person signed in whose login it uses.
    #[serde(with = "rfc3339", default)]
    #[schemars(with = "Option<String>")]
    pub signed_in_at: Option<SystemTime>,
    /// Proxy that requests to it go through, without credentials; absent where they go there directly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// Time at which the present connection was made.
    #[serde(with = "rfc3339")]
    #[schemars(with = "Option<String>")]
    pub connected_at: Option<SystemTime>,
    /// The last failure to connect, to list or to call; cleared by the next connection or listing.
    pub last_error: Option<String>,
    /// State of the circuit breaker.
    pub breaker: BreakerPosition,
    /// Number of tools listed; absent while no listing has succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<usize>,
    /// Number of resources listed, without templates.
    pub resources: usize,
    /// Number of resource templates listed.
    pub templates: usize,
    /// Number of prompts listed.
    pub prompts: usize,
    /// Number of definitions that were rejected.
    pub rejected: usize,
    /// Number of connections made after the first one.
    pub restarts: u32,
    /// Number of upstream sessions held for clients.
    pub sessions: usize,
    /// Time of the last listing.
    #[serde(with = "rfc3339")]
    #[schemars(with = "Option<String>")]
    pub last_refresh: Option<SystemTime>,
    /// True while the definitions are those that were saved by an earlier process: they are listed again
    /// soon after a start.
    pub cached: bool,
    /// Difference between the last listing and the one before; absent until there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<DefinitionChanges>,
    /// Tools that are hidden until their changed definitions are approved, by the backend's own names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub quarantined: Vec<String>,
    /// Advice on how the backend's configuration fits its server and clients: a program that may run once
    /// only, sessions that clients do not end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<String>,
}

/// State of the connection to a backend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BackendState {
    /// Known, but no request has needed it yet.
    #[default]
    Configured,
    /// An attempt, or the pause of the backoff before the next one, is under way.
    Connecting,
    /// Calls go through.
    Connected,
    /// All attempts failed; the backend is tried again on use and on a timer.
    Failed,
}

/// State of a backend's circuit breaker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BreakerPosition {
    /// Calls are let through.
    #[default]
    Closed,
    /// Calls fail at once.
    Open,
    /// One call may go through as a probe, or is under way; the others fail at once.
    HalfOpen,
}

/// Difference between a backend's listing and the one before it, which may be of an earlier run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct DefinitionChanges {
    /// Number of new definitions: tools, prompts, resources, templates.
    pub added: usize,
    /// Number of definitions that changed.
    pub updated: usize,
    /// Number of definitions that are gone.
    pub removed: usize,
    /// Number of definitions that are unchanged.
    pub unchanged: usize,
    /// Time at which the difference was noticed.
    #[serde(with = "rfc3339")]
    #[schemars(with = "Option<String>")]
    pub at: Option<SystemTime>,
}

/// State of the embedding of tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct EmbeddingStatus {
    /// Configured provider: `local`, `tei`, `openai` or `none`.
    pub provider: String,
    /// Provider and model, once known.
    pub model: Option<String>,
    /// Number of tools that need a vector.
    pub wanted: usize,
    /// Number of tools that have one.
    pub embedded: usize,
    /// State of the provider.
    pub state: EmbeddingState,
    /// Error of the provider while it fails. It may name an address: for operators.
    pub reason: Option<String>,
    /// Seconds until it is tried again, while it fails.
    pub retry_in_seconds: Option<u64>,
    /// Remedy, in one line.
    pub hint: Option<String>,
}

/// State of the re-ranking service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct RerankStatus {
    /// Hits that the service orders in time: `optimizer.rerank.candidates`, or fewer after time-outs.
    pub candidates: usize,
    /// Its last error, until it answers again. It may name an address: for operators.
    pub reason: Option<String>,
    /// Seconds until it is tried again, while searches keep their own order.
    pub retry_in_seconds: Option<u64>,
}

/// State of the embedding provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EmbeddingState {
    /// No provider is configured: searches use keywords.
    #[default]
    Off,
    /// Every tool has its vector.
    Ready,
    /// Vectors are being made; searches use the vectors so far.
    Working,
    /// The provider fails: searches use keywords.
    Degraded,
}

impl BackendState {
    /// Returns the state as the report writes it.
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
    /// Returns the state as the report writes it.
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
    /// Returns true if anything changed.
    pub fn any(&self) -> bool {
        self.added + self.updated + self.removed > 0
    }
}

/// Times as RFC 3339 text in UTC, to the second.
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
