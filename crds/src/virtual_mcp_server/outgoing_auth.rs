//! Credentials for backends, as a VirtualMCPServer names them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fields::cel_rules::rules;
use crate::fields::references::LocalReference;
use crate::problem::Problem;

/// Credentials for backends, each in an MCPExternalAuthConfig.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct OutgoingAuth {
    /// Where credentials are named: by the backends too, unless an entry below names others (`discovered`),
    /// or only here (`inline`).
    pub source: OutgoingAuthSource,
    /// Credentials of all other backends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<BackendAuth>,
    /// Credentials by name of the backend. At most 1000.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 1000))]
    pub backends: BTreeMap<String, BackendAuth>,
}

/// Sources of credentials.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OutgoingAuthSource {
    /// The backends' own `externalAuthConfigRef`.
    #[default]
    Discovered,
    /// The entries of this block.
    Inline,
}

/// Credentials of a backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "self.type != 'externalAuthConfigRef' || has(self.externalAuthConfigRef)",
    "type externalAuthConfigRef needs externalAuthConfigRef; name an MCPExternalAuthConfig",
)])))]
pub struct BackendAuth {
    /// `externalAuthConfigRef`: the credentials of the named object; `discovered`: the backend's own
    /// reference.
    #[serde(rename = "type")]
    pub kind: BackendAuthType,
    /// MCPExternalAuthConfig of the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_auth_config_ref: Option<LocalReference>,
}

/// Ways to name the credentials of a backend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum BackendAuthType {
    /// Credentials that the backend names.
    #[default]
    Discovered,
    /// Credentials of the named object.
    ExternalAuthConfigRef,
}

impl OutgoingAuth {
    /// Reports entries that name no credentials although their type says so: their backends would be called
    /// without any.
    pub(super) fn check(&self, problems: &mut Vec<Problem>) {
        let default = self.default.iter().map(|auth| ("default".to_owned(), auth));
        let backends = self.backends.iter().map(|(name, auth)| (format!("backends.{name}"), auth));
        for (path, auth) in default.chain(backends) {
            if auth.kind == BackendAuthType::ExternalAuthConfigRef && auth.external_auth_config_ref.is_none()
            {
                problems.push(Problem::new(
                    format!("spec.outgoingAuth.{path}"),
                    "type externalAuthConfigRef needs externalAuthConfigRef",
                    "name an MCPExternalAuthConfig",
                ));
            }
        }
    }

    /// Returns the name of the MCPExternalAuthConfig of a backend: its entry here, else `own`, the backend's
    /// own reference, else the default.
    pub fn resolve<'a>(&'a self, backend: &str, own: Option<&'a str>) -> Option<&'a str> {
        let named = |auth: &'a BackendAuth| match auth.kind {
            BackendAuthType::Discovered => own,
            BackendAuthType::ExternalAuthConfigRef => {
                auth.external_auth_config_ref.as_ref().map(|reference| reference.name.as_str())
            }
        };
        if let Some(entry) = self.backends.get(backend) {
            return named(entry);
        }
        let discovered = own.filter(|_| self.source == OutgoingAuthSource::Discovered);
        discovered.or_else(|| self.default.as_ref().and_then(named))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(outgoing: &str, own: Option<&str>) -> Option<String> {
        let outgoing: OutgoingAuth = serde_saphyr::from_str(outgoing).expect("outgoingAuth");
        outgoing.resolve("a", own).map(str::to_owned)
    }

    #[test]
    fn an_entry_wins_over_the_backends_own_and_that_over_the_default() {
        let default = "default: {type: externalAuthConfigRef, externalAuthConfigRef: {name: d}}";
        let entry = "backends: {a: {type: externalAuthConfigRef, externalAuthConfigRef: {name: e}}}";
        let name = |name: &str| Some(name.to_owned());
        assert_eq!(resolved(&format!("{{{default}, {entry}}}"), Some("own")), name("e"));
        assert_eq!(resolved(&format!("{{{default}}}"), Some("own")), name("own"));
        assert_eq!(resolved(&format!("{{{default}}}"), None), name("d"));
        assert_eq!(resolved("{}", None), None);
        // With `source: inline`, what backends name counts only where an entry says so.
        assert_eq!(resolved("{source: inline}", Some("own")), None);
        assert_eq!(resolved(&format!("{{source: inline, {default}}}"), Some("own")), name("d"));
        assert_eq!(resolved("{source: inline, backends: {a: {type: discovered}}}", Some("own")), name("own"));
    }
}
