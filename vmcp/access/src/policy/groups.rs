//! The groups and roles that claims name.

use serde_json::{Map, Value};
use vmcp_config::Authz;

/// Returns the groups of a client: those of the first claim that is a list, then its roles.
pub(super) fn groups(authz: &Authz, claims: &Map<String, Value>) -> Vec<String> {
    let listed = authz.group_claims.iter().find_map(|name| names(claims, name));
    let roles = authz.role_claim.as_ref().and_then(|name| names(claims, name));
    let mut groups: Vec<String> = listed.into_iter().chain(roles).flatten().map(str::to_owned).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// Returns the texts in the list at a path; `None` if the path has no list.
fn names<'a>(claims: &'a Map<String, Value>, path: &str) -> Option<Vec<&'a str>> {
    let list = lookup(claims, path)?.as_array()?;
    Some(list.iter().filter_map(Value::as_str).collect())
}

/// Returns the claim with this name, which may contain dots; else the claim at this path.
fn lookup<'a>(claims: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    if let Some(claim) = claims.get(path) {
        return Some(claim);
    }
    let mut steps = path.split('.');
    let first = claims.get(steps.next()?)?;
    steps.try_fold(first, |value, step| value.as_object()?.get(step))
}
