//! [`BackendEntry`]: an entry of `backends`, written for a person.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_saphyr::FlowSeq;

/// An entry of `backends`, in the order in which its keys are written. Texts are as in the file: `$` and
/// references are the caller's business.
#[derive(Debug, Default, Serialize)]
pub struct BackendEntry {
    /// Name.
    pub name: String,
    /// Program and arguments, on one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<FlowSeq<Vec<String>>>,
    /// Environment variables of the program.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Working directory of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// URL of a remote server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Transport, if it is not the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<&'static str>,
    /// Headers of requests to the server.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Longest time of a call, a duration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// Longest time of a connection attempt, a duration.
    #[serde(rename = "connectionTimeout", skip_serializing_if = "Option::is_none")]
    pub connection_timeout: Option<String>,
    /// False for a server that is switched off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}
