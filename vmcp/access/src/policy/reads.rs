//! [`Reads`]: the arguments and claims that a policy reads, found in its expressions. Cedar has no computed
//! attribute names, so the answer holds for every call.

use std::collections::{BTreeSet, HashSet};

use cedar_policy::Policy;
use serde_json::Value;
use vmcp_wire::letter_case::folded;

use super::bounds::{ARGUMENT, ARGUMENTS, DERIVED};

/// Prefix of the attributes that hold claims.
pub(super) const CLAIM: &str = "claim_";

/// Arguments and claims that policies read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Reads {
    /// Attributes `arg_<name>` and `claim_<name>`.
    names: BTreeSet<String>,
    /// Keys of the record `arguments`; `None` if no policy reads the record.
    keys: Option<BTreeSet<String>>,
    /// Attributes that are read within arguments, at any depth.
    nested: BTreeSet<String>,
    /// True if the record is used as a whole.
    all_keys: bool,
    /// True if the context is used as a whole.
    whole: bool,
}

impl Reads {
    /// Returns the attributes that a policy reads; all if the policy cannot be taken apart.
    pub(super) fn of(policy: &Policy) -> Reads {
        let mut reads = Reads::default();
        match policy.to_json().as_ref().map(|json| json.get("conditions")) {
            Ok(Some(conditions)) => reads.add(conditions),
            Ok(None) => {}
            Err(_) => reads.whole = true,
        }
        reads
    }

    /// Adds the attributes that others read.
    pub(super) fn extend(&mut self, other: &Reads) {
        self.names.extend(other.names.iter().cloned());
        if let Some(keys) = &other.keys {
            self.keys.get_or_insert_default().extend(keys.iter().cloned());
        }
        self.nested.extend(other.nested.iter().cloned());
        self.all_keys |= other.all_keys;
        self.whole |= other.whole;
    }

    /// True if the context is used as a whole: each argument and claim counts.
    pub(super) fn whole(&self) -> bool {
        self.whole
    }

    /// True if the attribute is read.
    pub(super) fn has(&self, name: &str) -> bool {
        self.whole || self.names.contains(name)
    }

    /// Yields the names that are read behind a prefix.
    pub(super) fn behind<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        self.names.iter().filter_map(move |name| name.strip_prefix(prefix))
    }

    /// True if an argument is read.
    pub(super) fn reads_arguments(&self) -> bool {
        self.whole || self.reads_record() || self.behind(ARGUMENT).next().is_some()
    }

    /// True if the record of arguments is read.
    pub(super) fn reads_record(&self) -> bool {
        self.whole || self.keys.is_some()
    }

    /// True if the record's entry with this key is read.
    pub(super) fn reads_key(&self, key: &str) -> bool {
        self.whole || self.all_keys || self.keys.as_ref().is_some_and(|keys| keys.contains(key))
    }

    /// True if the argument is read, by its value or by a value that is derived from it.
    pub(super) fn reads_argument(&self, name: &str) -> bool {
        let attribute = format!("{ARGUMENT}{name}");
        self.reads_key(name)
            || self.has(&attribute)
            || DERIVED.iter().any(|suffix| self.has(&format!("{attribute}{suffix}")))
    }

    /// True if the attribute is read within some argument.
    pub(super) fn reads_nested(&self, name: &str) -> bool {
        self.nested.contains(name)
    }

    /// Returns the names of the arguments that are read, in one letter case.
    pub(super) fn folded_arguments(&self) -> HashSet<String> {
        let keys = self.keys.iter().flatten().map(String::as_str);
        let flat = self.behind(ARGUMENT).flat_map(|name| {
            let derived_from = DERIVED.iter().filter_map(move |suffix| name.strip_suffix(suffix));
            std::iter::once(name).chain(derived_from)
        });
        keys.chain(flat).map(|name| folded(name).into_owned()).collect()
    }

    /// Returns the attributes that are read within arguments, in one letter case.
    pub(super) fn folded_nested(&self) -> HashSet<String> {
        self.nested.iter().map(|name| folded(name).into_owned()).collect()
    }

    fn add(&mut self, expression: &Value) {
        match expression {
            Value::Object(object) => {
                if object.get("Var").is_some_and(|variable| variable == "context") {
                    self.whole = true;
                    return;
                }
                for (operator, of) in object {
                    match of.get("left") {
                        Some(left) if operator == "." || operator == "has" => {
                            self.add_attribute(left, &attributes(of), operator == "has");
                        }
                        _ => self.add(of),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.add(item)),
            _ => {}
        }
    }

    /// Adds an access to an attribute, or a test for it.
    fn add_attribute(&mut self, left: &Value, names: &[&str], is_test: bool) {
        self.names.extend(
            names
                .iter()
                .filter(|name| name.starts_with(ARGUMENT) || name.starts_with(CLAIM))
                .map(|&name| name.to_owned()),
        );
        self.nested.extend(within_argument(left, names).iter().map(|&name| name.to_owned()));
        if is_variable(left, "context") {
            match names {
                [ARGUMENTS, key, ..] => _ = self.keys.get_or_insert_default().insert((*key).to_owned()),
                [ARGUMENTS] => {
                    self.keys.get_or_insert_default();
                    self.all_keys |= !is_test;
                }
                _ => {}
            }
        } else if is_record(left) {
            let keys = self.keys.get_or_insert_default();
            match names.first() {
                Some(&key) => _ = keys.insert(key.to_owned()),
                None => self.all_keys = true,
            }
        } else {
            self.add(left);
        }
    }
}

/// Returns the attributes that an access or a test names.
fn attributes(of: &Value) -> Vec<&str> {
    match of.get("attr") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Returns the part of `names` that an access to `left` reads within an argument.
fn within_argument<'n, 'a>(left: &Value, names: &'n [&'a str]) -> &'n [&'a str] {
    let Some(path) = path(left) else { return names };
    let to_argument: usize = match path.first().or(names.first()) {
        Some(&ARGUMENTS) => 2,
        Some(first) if first.starts_with(ARGUMENT) => 1,
        Some(_) | None => return &[],
    };
    names.get(to_argument.saturating_sub(path.len())..).unwrap_or_default()
}

/// Returns the attributes on the way from a variable to an expression; `None` for any other expression.
fn path(expression: &Value) -> Option<Vec<&str>> {
    if expression.get("Var").is_some() {
        return Some(Vec::new());
    }
    let of = expression.get(".")?;
    let mut path = path(of.get("left")?)?;
    path.extend(attributes(of));
    Some(path)
}

fn is_variable(expression: &Value, name: &str) -> bool {
    expression.get("Var").is_some_and(|variable| variable == name)
}

/// True for `context.arguments`.
fn is_record(expression: &Value) -> bool {
    let Some(of) = expression.get(".") else { return false };
    of.get("left").is_some_and(|left| is_variable(left, "context")) && attributes(of) == [ARGUMENTS]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(condition: &str) -> Reads {
        let policy = format!("permit(principal, action, resource) when {{ {condition} }};");
        Reads::of(&Policy::parse(None, policy).unwrap())
    }

    #[test]
    fn the_arguments_that_a_condition_reads_are_known() {
        let plain = reads(r#"context has arg_a && resource.arg_b > 1 && principal.claim_c == "d""#);
        assert!(plain.has("arg_a") && plain.has("arg_b") && plain.has("claim_c") && !plain.has("arg_c"));
        assert!(plain.reads_arguments() && !plain.reads_record() && !plain.whole());
        assert_eq!(plain.behind(ARGUMENT).collect::<Vec<_>>(), ["a", "b"]);
        for condition in [
            "context.arguments.a.b == 1",
            r#"context["arguments"]["a"] == 1"#,
            "context.arguments has a",
            "context has arguments && context.arguments has a.b",
        ] {
            let reads = reads(condition);
            assert!(reads.reads_key("a") && !reads.reads_key("b") && reads.reads_record(), "{condition}");
        }
        for condition in ["context.arguments == {}", "[context.arguments].contains({})"] {
            assert!(reads(condition).reads_key("any"), "{condition}");
        }
        for condition in [
            "context.arguments.a.b == 1 && principal.claim_c.d == 1",
            r#"context["arg_a"]["b"] == 1"#,
            "context.arguments has a.b",
            "context has arg_a.b && resource has name",
            "context.arguments.a has b",
        ] {
            let reads = reads(condition);
            assert_eq!(reads.folded_nested(), HashSet::from(["b".to_owned()]), "{condition}");
            assert!(reads.reads_argument("a") && !reads.reads_argument("A"), "{condition}");
        }
        assert!(reads("context == {}").whole() && reads("[context].isEmpty()").whole());
        assert!(!reads(r#"resource.name like "a*" && context.claim_x"#).reads_arguments());
    }
}
