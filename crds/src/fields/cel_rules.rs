//! Validation rules in CEL, which the API server evaluates, and patterns of text.

use serde_json::{Value, json};

/// A CEL expression that must hold, and the message that the API server returns when it does not.
pub(crate) type Rule = (&'static str, &'static str);

/// Pattern of a Kubernetes quantity, such as `500m` or `1Gi`.
pub(crate) const QUANTITY_PATTERN: &str =
    r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)(([KMGTPE]i)|[numkMGTPE]|([eE][+-]?[0-9]+))?$";

/// Returns the value of `x-kubernetes-validations`.
pub(crate) fn rules(rules: &[Rule]) -> Value {
    rules.iter().map(|(rule, message)| json!({ "rule": rule, "message": message })).collect()
}
