//! `spec.console`: people whom the web console on the admin port of the pods lets in.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::fields::cel_rules::rules;
use crate::fields::references::SecretKeyReference;
use crate::fields::yaml_block::{Block, escape};
use crate::problem::Problem;

/// The web console on the admin port of the pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "self.access != 'tokens' || has(self.operatorTokenSecretRefs) || has(self.viewerTokenSecretRefs)",
        "access tokens needs tokens of people; give console.operatorTokenSecretRefs or console.viewerTokenSecretRefs",
    ),
    (
        "self.access != 'oidc' || has(self.signIn)",
        "access oidc needs a provider; give console.signIn, or set console.access: tokens",
    ),
    (
        "self.access == 'oidc' || !has(self.signIn)",
        "signIn is for access oidc; set console.access: oidc, or remove console.signIn",
    ),
])))]
pub struct Console {
    /// People to whom the console is served. Write `"off"` with quotes: without them, YAML reads a boolean.
    pub access: ConsoleAccess,
    /// Secret keys with tokens of at least 16 characters of operators, who read the console and give orders.
    /// Such a token opens the admin API of the pods too. At most 16.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub operator_token_secret_refs: Vec<SecretKeyReference>,
    /// Secret keys with tokens of at least 16 characters of viewers, who read the console. Such a token opens
    /// nothing else. At most 16.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub viewer_token_secret_refs: Vec<SecretKeyReference>,
    /// OpenID provider at which people sign in, for `access: oidc`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sign_in: Option<ConsoleSignIn>,
}

/// People to whom the console is served. All of them sign in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ConsoleAccess {
    /// To no one.
    Off,
    /// To people who forward a port of the pod, as `vmcp console --kubernetes NAME` does, and sign in with a
    /// token.
    #[default]
    Loopback,
    /// Also at the Service `NAME-console`, to people who sign in with a token.
    Tokens,
    /// Also at the Service `NAME-console`, to people who sign in at the provider of `signIn`, or with a
    /// token.
    Oidc,
}

/// An OpenID provider at which people sign in, and their roles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "(has(self.operators) && size(self.operators) > 0) || (has(self.viewers) && size(self.viewers) > 0)",
    "no person could read the console; name a value of the claim in operators or viewers",
)])))]
pub struct ConsoleSignIn {
    /// Issuer, exactly as in its metadata and ID tokens.
    #[schemars(length(min = 1, max = 2048), regex(pattern = r"^https?://.*$"))]
    pub issuer_url: String,
    /// Client identifier of the console at the provider.
    #[schemars(length(min = 1, max = 1024))]
    pub client_id: String,
    /// Secret key that holds the client secret. Default: none, a public client with PKCE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret_ref: Option<SecretKeyReference>,
    /// Redirect URI registered at the provider: the address at which browsers reach the Service
    /// `NAME-console`, with the path `/console/oidc/callback`.
    #[schemars(length(min = 1, max = 2048), regex(pattern = r"^https?://.*/console/oidc/callback$"))]
    pub redirect_uri: String,
    /// Scopes to ask for. Default: `openid`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub scopes: Vec<String>,
    /// Claim of the ID token, by name or path, that has a person's roles. Default: `groups`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub role_claim: Option<String>,
    /// Values of the claim of operators, who read and give orders. At most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 253)), extend("x-kubernetes-list-type" = "atomic"))]
    pub operators: Vec<String>,
    /// Values of the claim of viewers, who read. A person with neither value is refused. At most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 253)), extend("x-kubernetes-list-type" = "atomic"))]
    pub viewers: Vec<String>,
    /// Reaches the provider over plain HTTP too. For development.
    #[serde(default, rename = "insecureAllowHTTP")]
    pub insecure_allow_http: bool,
    /// Reaches the provider at private addresses too, such as one in the cluster.
    #[serde(default, rename = "allowPrivateIPs")]
    pub allow_private_ips: bool,
}

impl Console {
    /// Finds a provider that no person would be sent to.
    pub(in crate::virtual_mcp_server) fn check(&self, problems: &mut Vec<Problem>) {
        if self.sign_in.is_some() && self.access != ConsoleAccess::Oidc {
            let remedy = "set `spec.console.access: oidc`, or remove it";
            problems.push(Problem::new("spec.console.signIn", "no person signs in there", remedy));
        }
        let has_tokens =
            !self.operator_token_secret_refs.is_empty() || !self.viewer_token_secret_refs.is_empty();
        if self.access == ConsoleAccess::Tokens && !has_tokens {
            let message = "`tokens` needs tokens of people, and there are none";
            let remedy = "give `operatorTokenSecretRefs` or `viewerTokenSecretRefs`";
            problems.push(Problem::new("spec.console.access", message, remedy));
        }
    }

    /// Returns true if a Service leads to the console.
    pub fn has_service(&self) -> bool {
        matches!(self.access, ConsoleAccess::Tokens | ConsoleAccess::Oidc)
    }

    /// Returns the Secret keys that it refers to.
    pub fn secret_references(&self) -> Vec<SecretKeyReference> {
        let of_provider = self.sign_in.iter().filter_map(|sign_in| sign_in.client_secret_ref.clone());
        let of_people = self.operator_token_secret_refs.iter().chain(&self.viewer_token_secret_refs);
        of_people.cloned().chain(of_provider).collect()
    }

    /// Returns its settings of the block `server`, except the tokens of operators; `refer` returns the
    /// reference to a Secret's value.
    pub(crate) fn lower(&self, refer: &mut dyn FnMut(&SecretKeyReference) -> Value) -> Block {
        let mut block = Block::new();
        block.insert("console".to_owned(), json!(self.access));
        if !self.viewer_token_secret_refs.is_empty() {
            let tokens = self.viewer_token_secret_refs.iter().map(&mut *refer).collect();
            block.insert("viewerTokens".to_owned(), tokens);
        }
        if let Some(sign_in) = &self.sign_in {
            block.insert("consoleSignIn".to_owned(), sign_in.lower(refer).into());
        }
        block
    }
}

impl ConsoleSignIn {
    fn lower(&self, refer: &mut dyn FnMut(&SecretKeyReference) -> Value) -> Block {
        let mut block = Block::new();
        for (key, text) in [
            ("issuerUrl", Some(&self.issuer_url)),
            ("clientId", Some(&self.client_id)),
            ("redirectUri", Some(&self.redirect_uri)),
            ("roleClaim", self.role_claim.as_ref()),
        ] {
            if let Some(text) = text {
                block.insert(key.to_owned(), escape(text.as_str().into()));
            }
        }
        if let Some(secret) = &self.client_secret_ref {
            block.insert("clientSecret".to_owned(), refer(secret));
        }
        for (key, list) in
            [("scopes", &self.scopes), ("operators", &self.operators), ("viewers", &self.viewers)]
        {
            if !list.is_empty() {
                block.insert(key.to_owned(), escape(json!(list)));
            }
        }
        for (key, is_allowed) in
            [("insecureAllowHttp", self.insecure_allow_http), ("allowPrivateIPs", self.allow_private_ips)]
        {
            if is_allowed {
                block.insert(key.to_owned(), true.into());
            }
        }
        block
    }
}
