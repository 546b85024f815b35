//! `incomingAuth.clientCertificates`: the authority whose certificates are accepted (mTLS).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problems::Report;
use crate::sections::server::tls::check_pem;

/// Client certificates.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ClientCertificates")]
pub struct RawClientCertificates {
    /// Required. Certificates in PEM of the authorities that issue those of clients; write
    /// `${file:/path/ca.crt}`.
    #[schemars(required)]
    pub authorities: String,
}

impl RawClientCertificates {
    /// Returns the authorities; they need TLS at the client port.
    pub(super) fn validate(&self, has_tls: bool, report: &mut Report) -> String {
        check_pem(&self.authorities, "CERTIFICATE", "incomingAuth.clientCertificates.authorities", report);
        if !has_tls {
            report.problem(
                "incomingAuth.clientCertificates",
                "clients show certificates over TLS only",
                "add `server.tls` with a certificate and its key",
            );
        }
        self.authorities.clone()
    }
}
