//! Log messages of a backend that belong to no client: they go to the operator's log.

use serde_json::value::RawValue;
use vmcp_config::KnownSecrets;
use vmcp_json::object::Object;
use vmcp_wire::level::Level;

/// Characters of a message that are written; the rest is cut off.
const MAX_TEXT: usize = 500;

/// Writes a log message without the secrets in it: from `warning` on as information, others for debugging.
pub(super) fn write(params: Option<&RawValue>, secrets: &KnownSecrets) {
    let Some(params) = params.and_then(|params| Object::parse(params).ok()) else { return };
    let level = params.get_str("level").unwrap_or_default();
    let text = params.text("data").unwrap_or_default();
    let text: String = secrets.mask(text).chars().take(MAX_TEXT).collect();
    if Level::parse(&level).is_some_and(|level| level >= Level::Warning) {
        tracing::info!(target: "vmcp_backend::server_log", level = %level, "{text}");
    } else {
        tracing::debug!(target: "vmcp_backend::server_log", level = %level, "{text}");
    }
}
