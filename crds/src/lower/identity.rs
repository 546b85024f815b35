//! Reads how a rendered `vmcp.yaml` guards its endpoint.

use std::collections::BTreeSet;

use serde_json::Value;

/// The guard of [`Identity`] that asks clients who they are.
const AUTHENTICATION: &str = "authentication";
/// The guard of webhooks, which may deny and change calls.
const WEBHOOKS: &str = "webhooks";
/// Blocks of `incomingAuth` that refuse calls.
const BLOCKS: [&str; 3] = ["authz", "toolScopes", "decisionPoint"];
/// Requirements of an identity provider.
const REQUIREMENTS: [&str; 2] = ["requiredScopes", "requiredBinding"];

/// The part of a rendered `vmcp.yaml` that decides who may call what. Two that are equal let in the same
/// clients.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Identity {
    incoming_auth: Value,
    auth_server: Value,
    webhooks: Value,
}

impl Identity {
    /// Reads a text that [`Validated::lower`](crate::virtual_mcp_server::Validated::lower) made. A text that
    /// cannot be read guards nothing.
    pub fn from_text(text: &str) -> Self {
        let mut file = serde_saphyr::from_str::<Value>(text).unwrap_or_default();
        let mut take = |key: &str| file.get_mut(key).map(Value::take).unwrap_or_default();
        Self {
            incoming_auth: take("incomingAuth"),
            auth_server: take("authServer"),
            webhooks: take("webhooks"),
        }
    }

    /// Returns true if clients must present credentials.
    pub fn authenticates(&self) -> bool {
        let kind = self.incoming_auth.get("type").and_then(Value::as_str);
        !self.auth_server.is_null() || kind.is_some_and(|kind| kind != "anonymous")
    }

    /// Returns true if a guard of `before` is missing here, so that more calls may be allowed. Guards are
    /// compared by name; their content is not weighed.
    pub fn drops_a_guard_of(&self, before: &Self) -> bool {
        !before.guards().is_subset(&self.guards())
    }

    fn guards(&self) -> BTreeSet<&'static str> {
        let is_given = |block: &Value, key: &str| block.get(key).is_some_and(|value| !value.is_null());
        let provider = self.incoming_auth.get("oidc").unwrap_or(&Value::Null);
        let blocks = BLOCKS.into_iter().filter(|key| is_given(&self.incoming_auth, key));
        let requirements = REQUIREMENTS.into_iter().filter(|key| is_given(provider, key));
        let authentication = self.authenticates().then_some(AUTHENTICATION);
        let webhooks = (!self.webhooks.is_null()).then_some(WEBHOOKS);
        authentication.into_iter().chain(webhooks).chain(blocks).chain(requirements).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_without_credentials_is_anonymous() {
        for (text, authenticates) in [
            ("{}", false),
            ("incomingAuth: {type: anonymous, authz: {policies: []}}", false),
            ("incomingAuth: {type: oidc, oidc: {issuer: i}}", true),
            ("incomingAuth: {type: apiKeys}", true),
            ("authServer: {issuer: i}", true),
            ("incomingAuth: [", false),
        ] {
            assert_eq!(Identity::from_text(text).authenticates(), authenticates, "{text}");
        }
    }

    #[test]
    fn a_missing_guard_opens_and_another_one_closes() {
        let identity = |block: &str| Identity::from_text(&format!("incomingAuth: {block}"));
        let oidc = identity("{type: oidc, oidc: {issuer: i, requiredScopes: [a]}, authz: {policies: [p]}}");
        for opener in [
            "{type: anonymous}",
            "{type: oidc, oidc: {issuer: i, requiredScopes: [a]}}",
            "{type: oidc, oidc: {issuer: i}, authz: {policies: [p]}}",
        ] {
            assert!(identity(opener).drops_a_guard_of(&oidc), "{opener}");
            assert!(!oidc.drops_a_guard_of(&identity(opener)), "{opener}");
        }
        assert!(!oidc.drops_a_guard_of(&oidc));
        assert_ne!(identity("{type: apiKeys, apiKeys: [{subject: a}]}"), identity("{type: apiKeys}"));
    }
}
