//! `server.tls`: the certificate of the client port.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problems::Report;
use crate::values::pem::check_pem;
use crate::values::secret::Secret;

/// Certificate and key of the client port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// Certificates in PEM, that of this server first.
    pub certificate: String,
    /// Its key in PEM.
    pub key: Secret,
}

/// TLS of the client port. A new certificate is used for the connections that are opened then; to begin or
/// end with TLS takes a restart.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Tls")]
pub struct RawTls {
    /// Required. Certificates in PEM, that of this server first; write `${file:/path/tls.crt}`.
    #[schemars(required)]
    pub certificate: String,
    /// Required. Key in PEM; write `${file:/path/tls.key}`.
    #[schemars(required)]
    pub key: Secret,
}

impl RawTls {
    pub(super) fn validate(&self, report: &mut Report) -> Tls {
        check_pem(&self.certificate, "CERTIFICATE", "server.tls.certificate", report);
        check_pem(self.key.expose(), "PRIVATE KEY", "server.tls.key", report);
        Tls { certificate: self.certificate.clone(), key: self.key.clone() }
    }
}

/// Checks that a process with TLS is not one of several that hand requests on to each other.
pub(super) fn check_peers(peer_address: &str, report: &mut Report) {
    if !peer_address.is_empty() {
        report.problem(
            "server.peerAddress",
            "replicas hand requests on to each other in plain HTTP, which a port with TLS does not take",
            "remove it, or remove `server.tls` and end TLS at a proxy",
        );
    }
}
