//! Paths of claims: where a token has a value that policies or conditions read.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Returns the claim with this name, which may contain dots; else the claim at this path, or at this JSON
/// Pointer (RFC 6901). Null counts as absent.
pub(crate) fn lookup<'a>(claims: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    if let Some(claim) = claims.get(path) {
        return Some(claim).filter(|claim| !claim.is_null());
    }
    let found = if let Some(pointer) = path.strip_prefix('/') {
        let mut steps = pointer.split('/').map(|step| step.replace("~1", "/").replace("~0", "~"));
        let first = claims.get(&steps.next()?)?;
        steps.try_fold(first, |value, step| value.as_object()?.get(&step))
    } else {
        let mut steps = path.split('.');
        let first = claims.get(steps.next()?)?;
        steps.try_fold(first, |value, step| value.as_object()?.get(step))
    };
    found.filter(|claim| !claim.is_null())
}

/// True if the claim at a path has one of the accepted values, or is a list with one of them. Flags and
/// numbers are compared as they are written.
pub(crate) fn has_one_of(claims: &Map<String, Value>, path: &str, accepted: &[String]) -> bool {
    let is_accepted = |value: &Value| match value {
        Value::String(text) => accepted.contains(text),
        Value::Bool(_) | Value::Number(_) => accepted.contains(&value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    };
    match lookup(claims, path) {
        Some(Value::Array(items)) => items.iter().any(is_accepted),
        Some(value) => is_accepted(value),
        None => false,
    }
}

/// Replaces claims by the ones that they are mapped to. A claim of the token's own with a mapped name is
/// removed, also where the path is absent: else a token could bring what only the mapping may give.
pub(crate) fn map(claims: &mut Map<String, Value>, mapping: &BTreeMap<String, String>) {
    let found: Vec<_> = mapping.iter().map(|(name, path)| (name, lookup(claims, path).cloned())).collect();
    for (name, value) in found {
        claims.remove(name);
        claims.extend(value.map(|value| (name.clone(), value)));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mapped_claim_is_the_one_at_the_path_or_none() {
        let Value::Object(mut claims) =
            json!({"department": "mine", "admin": true, "ext": {"dept": "sales", "a.b": ["x"]}})
        else {
            unreachable!()
        };
        let mapping = [("department", "ext.dept"), ("admin", "/ext/admin"), ("list", "/ext/a.b")];
        let mapping = mapping.map(|(name, path)| (name.to_owned(), path.to_owned()));
        map(&mut claims, &mapping.into());
        assert_eq!(claims["department"], json!("sales"));
        assert_eq!(claims.get("admin"), None);
        assert_eq!(claims["list"], json!(["x"]));
        let accepted = ["x".to_owned(), "true".to_owned()];
        assert!(has_one_of(&claims, "list", &accepted) && !has_one_of(&claims, "department", &accepted));
        assert!(!has_one_of(&claims, "absent", &accepted));
    }
}
