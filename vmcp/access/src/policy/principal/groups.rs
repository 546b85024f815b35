//! The groups and roles that claims name.

use serde_json::{Map, Value};

use crate::identity::claim_path::lookup;

/// Names of members that name a group which is an object, in the order of preference (SCIM has the last two).
const NAMES: [&str; 3] = ["name", "value", "display"];

/// Groups and roles of a client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::policy) struct Groups {
    /// Names, sorted.
    pub(in crate::policy) names: Vec<String>,
    /// Reason why the groups are not all known.
    pub(in crate::policy) unreadable: Option<String>,
}

/// Returns the groups of a client: those of the first claim that is there, then its roles.
pub(in crate::policy) fn groups(
    group_claims: &[String],
    role_claim: Option<&String>,
    claims: &Map<String, Value>,
) -> Groups {
    let mut groups = Groups::default();
    let there = group_claims.iter().find_map(|name| Some((name, lookup(claims, name)?)));
    let roles = role_claim.and_then(|name| Some((name, lookup(claims, name)?)));
    for (claim, value) in there.into_iter().chain(roles) {
        if let Some(names) = names(value) {
            groups.names.extend(names);
        } else {
            let reason = "is neither a text, a list of texts nor objects with a `name`, `value` or `display`";
            groups.unreadable = Some(format!("the claim `{claim}` {reason}"));
        }
    }
    if there.is_none() && is_left_out(claims) {
        let reason = "the provider left out the claim `groups`, because the client has too many";
        groups.unreadable = Some(reason.to_owned());
    }
    groups.names.sort_unstable();
    groups.names.dedup();
    groups
}

/// Returns the names in a claim: a text (AD FS writes one group so), or a list; `None` if one is unreadable.
fn names(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Array(items) => items.iter().map(name).collect(),
        Value::String(text) if text.is_empty() => Some(Vec::new()),
        one => Some(vec![name(one)?]),
    }
}

/// Returns the name of one group.
fn name(value: &Value) -> Option<String> {
    match value {
        Value::String(name) => Some(name.clone()),
        Value::Number(number) if !number.is_f64() => Some(number.to_string()),
        Value::Object(group) => NAMES.iter().find_map(|name| group.get(*name)?.as_str()).map(str::to_owned),
        _ => None,
    }
}

/// True if the provider writes that the token has no room for the groups: a distributed claim (OpenID Connect
/// Core, 5.6.2), as Microsoft Entra ID has it.
fn is_left_out(claims: &Map<String, Value>) -> bool {
    let distributed = claims.get("_claim_names").and_then(|names| names.get("groups")).is_some();
    distributed || claims.get("hasgroups").is_some_and(|has| has == true || has == "true")
}
