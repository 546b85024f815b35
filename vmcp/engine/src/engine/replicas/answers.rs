//! Answers of one replica to another, beside its report: usage over days, and the tokens of a client.

use serde::{Deserialize, Serialize};
use vmcp_access::identity::Identity;

use crate::telemetry::tool_metrics::usage::UsageReport;

/// A client, by the source that vouches for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientName {
    /// The issuer.
    pub issuer: String,
    /// The subject, unique within the issuer.
    pub subject: String,
}

impl ClientName {
    /// Returns [`Identity::digest`] of the client.
    pub(in crate::engine) fn digest(&self) -> [u8; 32] {
        Identity::digest_of(&self.issuer, &self.subject)
    }
}

/// The tokens of a client for one backend. None of them is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientLogin {
    /// The backend's name.
    pub server: String,
    /// Kind of its credentials, as in the configuration.
    pub kind: String,
    /// Provider that gave the token when the person signed in through vmcp; the client's access token
    /// carries it. `None`: vmcp fetched the token in exchange for the client's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Time at which the last of the tokens expires, in seconds since 1970.
    pub expires: u64,
}

/// The tokens of a client at one replica, as `GET /admin/logins` answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaLogins {
    /// Id of the replica, as lasting as its database.
    pub(super) replica: String,
    /// One entry for each backend.
    pub(super) logins: Vec<ClientLogin>,
}

/// The usage of one replica, as `GET /admin/replica/usage` answers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplicaUsage {
    /// Id of the replica, as lasting as its database.
    pub(super) replica: String,
    /// The usage.
    pub(super) usage: UsageReport,
}
