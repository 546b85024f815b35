//! Definitions as backends send them: the raw JSON, byte for byte, and the few keys that we read.

use serde::Deserialize;

/// Behaviour hints of a tool; also the shape of an override of them. A missing key is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotations {
    /// Title for people.
    pub title: Option<String>,
    /// The tool does not change its environment.
    pub read_only_hint: Option<bool>,
    /// The tool may destroy something.
    pub destructive_hint: Option<bool>,
    /// Calling it again with the same arguments changes nothing more.
    pub idempotent_hint: Option<bool>,
    /// The tool reaches beyond a closed domain.
    pub open_world_hint: Option<bool>,
}
