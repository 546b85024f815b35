//! Proof of possession: tokens that are bound to a key of their holder (RFC 9449, RFC 8705).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RawIncomingAuth;
use crate::problems::{self, Report};

/// Binding that the tokens of an issuer must have. Tokens that are bound are verified, whatever is required.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TokenBinding {
    /// None: bearer tokens are accepted too.
    #[default]
    None,
    /// A key that signs a proof for each request (DPoP, RFC 9449).
    Dpop,
    /// The client certificate of the connection (RFC 8705).
    Certificate,
    /// One of the two.
    Any,
}

impl TokenBinding {
    /// Returns true if a key satisfies the requirement.
    pub fn takes_dpop(self) -> bool {
        matches!(self, Self::Dpop | Self::Any)
    }

    /// Returns true if a certificate satisfies the requirement.
    pub fn takes_certificate(self) -> bool {
        matches!(self, Self::Certificate | Self::Any)
    }
}

/// Reports requirements that no request could meet. A proof names the URL of its request, which is compared
/// to a configured one: the `Host` of a request is the word of its sender.
pub(super) fn check(raw: &RawIncomingAuth, has_auth_server: bool, report: &mut Report) {
    let has_resource = has_auth_server || raw.blocks().any(|(_, block)| block.resource.is_some());
    let has_certificates = raw.client_certificates.is_some();
    for (path, block) in raw.blocks() {
        let required = block.required_binding;
        let possible = (required.takes_dpop() && has_resource)
            || (required.takes_certificate() && has_certificates)
            || required == TokenBinding::None;
        if possible {
            continue;
        }
        let path = problems::key(&path, "requiredBinding");
        if required.takes_dpop() {
            report.problem(
                &path,
                "proofs (DPoP) name the URL of this server, which is unknown here",
                "add `resource: https://…/mcp`, the URL at which clients reach this server",
            );
        } else {
            report.problem(
                &path,
                "no connection has a client certificate",
                "add `clientCertificates` and `server.tls`",
            );
        }
    }
}
