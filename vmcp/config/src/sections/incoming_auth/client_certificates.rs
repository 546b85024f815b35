//! `incomingAuth.clientCertificates`: the authority whose certificates are accepted (mTLS).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::source_naming::{self, RawSourceGroups, SourceNaming};
use crate::problems::Report;
use crate::values::pem::check_pem;

/// Client certificates.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ClientCertificates")]
pub struct RawClientCertificates {
    /// Required. Certificates in PEM of the authorities that issue those of clients; write
    /// `${file:/path/ca.crt}`.
    #[schemars(required)]
    pub authorities: String,
    /// Prefix of their subjects in policies, `Client::"<prefix><subject>"`. Default: none if certificates are
    /// the first source of identities, else `clientCertificates#`.
    pub subject_prefix: Option<String>,
    /// Groups of certificates that policies see. Default: `all` for the first source of identities, else
    /// `prefix`.
    pub groups: Option<RawSourceGroups>,
    /// Prefix of groups, with `groups: prefix`. Default: `subjectPrefix`.
    pub group_prefix: Option<String>,
    /// Groups that count, with `groups: allowList`.
    pub allowed_groups: Vec<String>,
}

impl RawClientCertificates {
    /// Returns the names of their clients in policies.
    pub(super) fn naming(&self, report: &mut Report) -> SourceNaming {
        source_naming::validate(
            [self.subject_prefix.as_ref(), self.group_prefix.as_ref()],
            self.groups,
            &self.allowed_groups,
            "incomingAuth.clientCertificates",
            report,
        )
    }

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
