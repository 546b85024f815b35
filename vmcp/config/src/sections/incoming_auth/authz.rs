//! `incomingAuth.authz`: Cedar policies about who may call which tool, with ToolHive's keys. Here they are
//! texts; `vmcp-access` parses them and reports their mistakes through [`FurtherCheck`](crate::FurtherCheck).

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::IncomingAuth;
use super::source_naming::{self, IdentitySources};
use crate::problems::Report;

/// Path of the section.
const PATH: &str = "incomingAuth.authz";
/// Claims that hold a client's groups where none is configured; the first that is a list counts.
const GROUP_CLAIMS: [&str; 3] = ["groups", "roles", "cognito:groups"];
/// Entity types that no group may have: a group of a token must not be a server, an issuer or a client.
const TAKEN_TYPES: [&str; 8] = ["Client", "Issuer", "MCP", "Backend", "Tool", "Prompt", "Resource", "Action"];
/// Most bytes of all policies together, and of the entities: each call evaluates them.
const MAX_TEXT_BYTES: usize = 1024 * 1024;

/// Policies as texts. Two that are equal decide alike.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Authz {
    /// Cedar policies, one or several a text.
    pub policies: Vec<String>,
    /// Entities that policies refer to, such as a hierarchy of groups, as a JSON list.
    pub entities_json: String,
    /// Claims that may hold the client's groups, in the order in which they are looked for.
    pub group_claims: Vec<String>,
    /// Claim that holds the client's roles, which count as groups.
    pub role_claim: Option<String>,
    /// Entity type of groups and roles.
    pub group_entity_type: String,
    /// Name of this server: the entity `MCP::"name"` is a parent of all that is asked about.
    pub server_name: String,
    /// SHA-256 of all settings, for audit events.
    pub version: String,
    /// Effect of a `forbid` whose evaluation fails.
    pub on_error: OnPolicyError,
    /// False: decisions are logged and counted, and nothing is denied.
    pub enforce: bool,
    /// Ids of resources in a `permit`.
    pub resource_ids: ResourceIds,
    /// Names of clients and groups, by the source of their identity.
    pub sources: IdentitySources,
}

/// Shows the number of texts only: a policy may name people.
impl fmt::Debug for Authz {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authz")
            .field("policies", &self.policies.len())
            .field("group_entity_type", &self.group_entity_type)
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}

/// Policies about who may call which tool, get which prompt and read which resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Authz")]
pub struct RawAuthz {
    /// Kind of policies. Default: `cedar` if there are `policies`, else `none`.
    #[serde(rename = "type")]
    pub kind: Option<RawAuthzType>,
    /// Cedar policies, one or several a text; a text may be that of a file, `${file:/path}`. With policies,
    /// a client may do what one permits and none forbids, and sees nothing else.
    pub policies: Vec<String>,
    /// Cedar entities as a JSON list: groups of groups, attributes that policies read.
    pub entities_json: String,
    /// Claim that lists the client's groups; a dot descends into an object. Looked for before `groups`,
    /// `roles` and `cognito:groups`.
    pub group_claim_name: Option<String>,
    /// Claim that lists the client's roles, which become groups too; a dot descends into an object.
    pub role_claim_name: Option<String>,
    /// Entity type of the client's groups in policies.
    pub group_entity_type: String,
    /// Name of this server in policies: `resource in MCP::"name"`.
    pub server_name: String,
    /// Effect of a `forbid` whose evaluation fails, because it reads an attribute that is missing or has
    /// another type. `deny`: the call is denied. `warn`: the policy has no effect. Both are logged and
    /// counted. A `permit` whose evaluation fails permits nothing.
    pub on_policy_error: OnPolicyError,
    /// `false`: shadow mode, in which nothing is denied or hidden; denials are logged and counted. One policy
    /// is tried out by its annotation `@enforce("false")`.
    pub enforce: bool,
    /// Ids of resources in a `permit`, `Resource::"id"`. `uri`: the URI. `toolhive`: also ToolHive's form of
    /// it, which many URIs share: `file____a_txt` is `file:///a.txt` and `file:///a/txt`. A `forbid` means
    /// all of them either way.
    pub resource_ids: ResourceIds,
}

/// Ids of resources in a `permit`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ResourceIds {
    /// The URI.
    #[default]
    Uri,
    /// The URI, and ToolHive's form of it.
    Toolhive,
}

/// Effect of a `forbid` whose evaluation fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnPolicyError {
    /// The call is denied.
    #[default]
    Deny,
    /// The policy has no effect.
    Warn,
}

impl Default for RawAuthz {
    fn default() -> Self {
        Self {
            kind: None,
            policies: Vec::new(),
            entities_json: "[]".to_owned(),
            group_claim_name: None,
            role_claim_name: None,
            group_entity_type: "THVGroup".to_owned(),
            server_name: "vmcp".to_owned(),
            on_policy_error: OnPolicyError::Deny,
            enforce: true,
            resource_ids: ResourceIds::Uri,
        }
    }
}

/// Kinds of policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "AuthzType")]
pub enum RawAuthzType {
    /// Policies in Cedar's language.
    Cedar,
    /// No policies: every client that is let in may do everything.
    None,
}

impl RawAuthz {
    /// `incoming`: the sources of identities that policies are about.
    pub(crate) fn validate(&self, incoming: &IncomingAuth, report: &mut Report) -> Option<Authz> {
        let none = self.policies.is_empty();
        match self.kind {
            Some(RawAuthzType::None) if !none => {
                report.problem(
                    &format!("{PATH}.type"),
                    "`none`, and there are policies",
                    "write `cedar`, or remove the policies",
                );
                return None;
            }
            Some(RawAuthzType::Cedar) if none && !report.is_dropped(&format!("{PATH}.policies")) => {
                report.problem(
                    &format!("{PATH}.policies"),
                    "there are none",
                    "add one, or write `type: none`; `permit(principal, action, resource);` permits everything",
                );
                return None;
            }
            None | Some(_) if none => return None,
            None | Some(_) => {}
        }
        let size = self.policies.iter().map(String::len).sum::<usize>().max(self.entities_json.len());
        if size > MAX_TEXT_BYTES {
            let message = format!("{size} bytes, and at most {MAX_TEXT_BYTES} are evaluated for each call");
            report.problem(PATH, message, "write fewer policies");
            return None;
        }
        if TAKEN_TYPES.contains(&self.group_entity_type.as_str()) {
            let message = format!("`{}` is the type of other entities", self.group_entity_type);
            report.problem(&format!("{PATH}.groupEntityType"), message, "write a word such as `THVGroup`");
        }
        let sources = source_naming::sources(incoming);
        source_naming::check(&sources, &self.policies, &self.group_entity_type, incoming, report);
        Some(Authz {
            policies: self.policies.clone(),
            entities_json: self.entities_json.clone(),
            group_claims: self.group_claims(),
            role_claim: self.role_claim(),
            group_entity_type: self.group_entity_type.clone(),
            server_name: self.server_name.clone(),
            version: crate::status::digest(&serde_json::to_string(self).unwrap_or_default()),
            on_error: self.on_policy_error,
            enforce: self.enforce,
            resource_ids: self.resource_ids,
            sources,
        })
    }

    /// Returns the claims that may hold groups, in the order in which they are looked for.
    pub(super) fn group_claims(&self) -> Vec<String> {
        let claims = self.group_claim_name.iter().map(String::as_str).chain(GROUP_CLAIMS);
        claims.filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }

    /// Returns the claim that holds roles.
    pub(super) fn role_claim(&self) -> Option<String> {
        self.role_claim_name.clone().filter(|name| !name.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Loaded, Problems, load};

    fn with(authz: &str) -> Result<Loaded, Problems> {
        load(&format!("incomingAuth:\n  authz:\n{authz}\n"), "vmcp.yaml", &|_| None)
    }

    #[test]
    fn policies_are_texts_beside_their_kind() {
        let text = "    policies: ['permit(principal, action, resource);']";
        let authz = with(text).unwrap().config.authz.unwrap();
        assert_eq!((authz.policies.len(), authz.group_entity_type.as_str()), (1, "THVGroup"));
        assert!(!format!("{authz:?}").contains("permit"));
        assert!(with("    {}").unwrap().config.authz.is_none());
        assert_eq!(with("    type: none").unwrap().config.authz, None);
        for (authz, message) in [
            ("    type: cedar", "policies: there are none"),
            (
                "    type: none\n    policies: ['permit(principal, action, resource);']",
                "`none`, and there are policies",
            ),
        ] {
            let problems = with(authz).unwrap_err().to_string();
            assert!(problems.contains(message), "{authz}: {problems}");
        }
    }
}
