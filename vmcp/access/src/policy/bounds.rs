//! Policies for lists, where the arguments of a call are not known yet: an item is listed if some call of it
//! could be allowed.
//!
//! A condition on an argument may turn out either way. In a `permit` it counts as true and in a `forbid` as
//! false; everything else in the condition keeps its meaning. The bound of `a && b` is that of both sides,
//! and a negation swaps the bounds: interval arithmetic on booleans.

use cedar_policy::{Effect, Policy};
use serde_json::{Value, json};

/// Prefix of the attributes that hold arguments.
pub(super) const ARGUMENT: &str = "arg_";
/// Entry of the context that holds all arguments.
pub(super) const ARGUMENTS: &str = "arguments";
/// Suffixes of attributes that are worked out from an entry.
pub(super) const DERIVED: [&str; 3] = ["_present", "_long", "_text"];

/// Value that a condition is bounded by.
#[derive(Clone, Copy)]
enum Bound {
    /// True if the condition is true for some arguments.
    Upper,
    /// True if the condition is true for all arguments.
    Lower,
}

/// Returns the policy for lists; the policy itself if no argument matters to it. A policy that cannot be
/// taken apart is returned as it is.
pub(super) fn for_lists(policy: &Policy) -> Policy {
    bounded(policy).unwrap_or_else(|| policy.clone())
}

fn bounded(policy: &Policy) -> Option<Policy> {
    let mut json = policy.to_json().ok()?;
    let conditions = json.get_mut("conditions")?;
    if !depends(conditions) {
        return None;
    }
    let bound = match policy.effect() {
        Effect::Permit => Bound::Upper,
        Effect::Forbid => Bound::Lower,
    };
    for condition in conditions.as_array_mut()? {
        let body = condition.get("body")?;
        let body = if condition.get("kind")?.as_str()? == "unless" { not(body) } else { body.clone() };
        *condition = json!({"kind": "when", "body": bound_of(&body, bound)});
    }
    Policy::from_json(Some(policy.id().clone()), json).ok()
}

/// Returns an expression without arguments that bounds this one.
fn bound_of(expression: &Value, bound: Bound) -> Value {
    if !depends(expression) {
        return expression.clone();
    }
    let other = match bound {
        Bound::Upper => Bound::Lower,
        Bound::Lower => Bound::Upper,
    };
    for operator in ["&&", "||"] {
        if let Some((left, right)) =
            expression.get(operator).and_then(|of| of.get("left").zip(of.get("right")))
        {
            return json!({operator: {"left": bound_of(left, bound), "right": bound_of(right, bound)}});
        }
    }
    if let Some(argument) = expression.get("!").and_then(|of| of.get("arg")) {
        return not(&bound_of(argument, other));
    }
    json!({"Value": matches!(bound, Bound::Upper)})
}

fn not(expression: &Value) -> Value {
    json!({"!": {"arg": expression}})
}

/// True if an argument may matter to the expression.
fn depends(expression: &Value) -> bool {
    any_attribute(expression, &mut |name| name.starts_with(ARGUMENT) || name == ARGUMENTS)
        || is_whole(expression)
}

/// True if the expression uses the context as a whole.
fn is_whole(expression: &Value) -> bool {
    match expression {
        Value::Object(object) => {
            if object.get("Var").is_some_and(|variable| variable == "context") {
                return true;
            }
            object.iter().any(|(operator, of)| match of.get("left") {
                Some(left) if operator == "." || operator == "has" => {
                    left.get("Var").is_none() && is_whole(left)
                }
                _ => is_whole(of),
            })
        }
        Value::Array(items) => items.iter().any(is_whole),
        _ => false,
    }
}

/// True if `fits` takes the name of an attribute that the expression reads or asks for.
fn any_attribute(expression: &Value, fits: &mut impl FnMut(&str) -> bool) -> bool {
    match expression {
        Value::Object(object) => object.iter().any(|(operator, of)| {
            let named = match of.get("attr") {
                Some(Value::String(name)) if operator == "." || operator == "has" => fits(name),
                Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).any(&mut *fits),
                _ => false,
            };
            named || any_attribute(of, fits)
        }),
        Value::Array(items) => items.iter().any(|item| any_attribute(item, fits)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn for_lists_of(text: &str) -> String {
        let bounded = for_lists(&Policy::parse(None, text).unwrap()).to_json().unwrap();
        let rendered = Policy::from_json(None, bounded).unwrap().to_cedar().unwrap();
        rendered.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_condition_on_an_argument_may_turn_out_either_way() {
        for (policy, expected) in [
            (
                r#"permit(principal, action, resource) when { context.arg_path like "/tmp/*" };"#,
                "permit(principal, action, resource) when { true };",
            ),
            (
                r#"permit(principal, action, resource) when { principal.claim_role == "dev" && resource.arg_n == 1 };"#,
                r#"permit(principal, action, resource) when { principal["claim_role"] == "dev" && true };"#,
            ),
            (
                "forbid(principal, action, resource) when { context has arg_force };",
                "forbid(principal, action, resource) when { false };",
            ),
            (
                r#"forbid(principal, action, resource) unless { context.arg_path like "/tmp/*" };"#,
                "forbid(principal, action, resource) when { !true };",
            ),
            (
                "permit(principal, action, resource) when { context.arguments.a.b == 1 || !(context == {}) };",
                "permit(principal, action, resource) when { true || !false };",
            ),
            (
                r#"permit(principal, action, resource) when { context.claim_a == "b" && resource has arg };"#,
                r#"permit(principal, action, resource) when { context["claim_a"] == "b" && (resource has "arg") };"#,
            ),
        ] {
            assert_eq!(for_lists_of(policy), for_lists_of(expected), "{policy}");
        }
    }
}
