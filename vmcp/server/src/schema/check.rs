//! Checks a call's arguments against the tool's input schema before the backend sees them.
//!
//! A schema is compiled when its tool is first called, and kept as long as the definition's hash stays. A
//! schema that does not compile, or that would cost too much to evaluate, is logged once and skips the check:
//! the backend still checks for itself. (Size and depth of a schema are bounded by `vmcp_model::definition`.)

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;
use serde_json::value::RawValue;
use vmcp_json::nesting;

use super::cost::{Cost, CostError};

/// Deepest instance that costs are worked out for: the upper limit of `optimizer.limits.parametersDepth`.
const MAX_DEPTH: usize = 127;
/// Memory that one regular expression may compile to, in bytes.
const MAX_PATTERN_BYTES: usize = 1024 * 1024;
/// Most violations that an error names.
const MAX_VIOLATIONS: usize = 5;
/// Longest text of one violation, in characters; enumerations can be long.
const MAX_VIOLATION_CHARS: usize = 300;

/// Reasons not to use a schema.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error("it is not valid JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Cost(#[from] CostError),
    #[error("checking it would cost too much")]
    Expensive,
    #[error("it does not compile: {0}")]
    Compile(String),
}

struct Compiled {
    validator: Validator,
    cost: Cost,
}

/// The input schema of a tool, compiled on first use. Clones share the compiled schema.
#[derive(Clone, Default)]
pub(crate) struct ArgumentCheck {
    compiled: Arc<OnceLock<Option<Compiled>>>,
}

impl ArgumentCheck {
    /// Checks `arguments`, which must be valid JSON. `tool` is for the log. The error lists violations by
    /// JSON pointer, for the model that wrote the arguments.
    pub(crate) fn check(
        &self,
        tool: &str,
        schema: Option<&RawValue>,
        arguments: &RawValue,
    ) -> Result<(), String> {
        let Some(schema) = schema else { return Ok(()) };
        let compiled = self.compiled.get_or_init(|| {
            compile(schema.get())
                .inspect_err(|reason| {
                    tracing::warn!(tool, %reason, "arguments of this tool are not checked: its input schema cannot be used");
                })
                .ok()
        });
        let Some(Compiled { validator, cost }) = compiled else { return Ok(()) };
        let json = arguments.get();
        if !cost.allows(nesting::depth(json.as_bytes()), json.len()) {
            tracing::warn!(tool, "arguments of this call are not checked: checking them would cost too much");
            return Ok(());
        }
        let value: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
        if validator.is_valid(&value) { Ok(()) } else { Err(describe(validator.iter_errors(&value))) }
    }

    /// True if the two share the compiled schema.
    #[cfg(test)]
    pub(crate) fn is(&self, other: &ArgumentCheck) -> bool {
        Arc::ptr_eq(&self.compiled, &other.compiled)
    }
}

fn compile(schema: &str) -> Result<Compiled, Unusable> {
    let schema: Value = serde_json::from_str(schema)?;
    let cost = Cost::of(&schema, MAX_DEPTH)?;
    if !cost.allows(0, 0) {
        return Err(Unusable::Expensive);
    }
    let validator = jsonschema::options()
        .offline()
        // This regex engine is linear in the text; a schema could abuse the backtracking of the default one.
        .with_pattern_options(
            PatternOptions::regex().size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES),
        )
        .build(&schema)
        .map_err(|error| Unusable::Compile(shortened(error.to_string())))?;
    Ok(Compiled { validator, cost })
}

fn describe<'a>(errors: impl Iterator<Item = ValidationError<'a>>) -> String {
    let mut text = String::new();
    for error in errors.take(MAX_VIOLATIONS) {
        let mut pointer = error.instance_path().to_string();
        let message = match error.kind() {
            // The pointer names the missing property, not the object that misses it.
            ValidationErrorKind::Required { property } => {
                let name = property.as_str().unwrap_or_default().replace('~', "~0").replace('/', "~1");
                let _ = write!(pointer, "/{name}");
                "is required".to_owned()
            }
            // The value is masked: it may be large, and the model knows it.
            _ => shortened(error.masked_with("the value").to_string()),
        };
        if !text.is_empty() {
            text.push_str("; ");
        }
        let place = if pointer.is_empty() { "(arguments)" } else { &pointer };
        let _ = write!(text, "{place}: {message}");
    }
    text
}

fn shortened(text: String) -> String {
    match text.char_indices().nth(MAX_VIOLATION_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn raw(value: &Value) -> Box<RawValue> {
        serde_json::value::to_raw_value(value).unwrap()
    }

    fn check(schema: &Value, arguments: &Value) -> Result<(), String> {
        ArgumentCheck::default().check("t", Some(&raw(schema)), &raw(arguments))
    }

    #[test]
    fn errors_name_the_json_pointer() {
        let schema = json!({"type": "object", "required": ["issueKey", "a/b"], "additionalProperties": false,
            "properties": {"issueKey": {"type": "string"}, "a/b": {}, "list": {"items": {"enum": ["x", "y"]}}}});
        assert_eq!(check(&schema, &json!({"issueKey": "P-1", "a/b": 1, "list": ["x"]})), Ok(()));
        let error = check(&schema, &json!({"issueKey": 5, "list": ["x", "z"]})).unwrap_err();
        assert!(error.contains("/issueKey: the value is not of type \"string\""), "{error}");
        assert!(error.contains("/a~1b: is required"), "{error}");
        assert!(error.contains("/list/1: the value is not one of"), "{error}");
        let error = check(&schema, &json!({"issueKey": "P", "a/b": 1, "key": 1})).unwrap_err();
        assert!(error.starts_with("(arguments): ") && error.contains("'key'"), "{error}");
    }

    #[test]
    fn long_values_and_enumerations_do_not_flood_the_answer() {
        let schema = json!({"properties": {"a": {"enum": (0..10_000).collect::<Vec<_>>()}}});
        let error = check(&schema, &json!({"a": "x".repeat(100_000)})).unwrap_err();
        assert!(error.len() < 400, "{}", error.len());
    }

    #[test]
    fn older_drafts_are_understood() {
        let schema = json!({"$schema": "http://json-schema.org/draft-07/schema#",
            "properties": {"pair": {"items": [{"type": "string"}, {"type": "number"}]}}});
        assert!(check(&schema, &json!({"pair": ["a", "b"]})).unwrap_err().starts_with("/pair/1"));
    }

    #[test]
    fn what_cannot_be_used_checks_nothing() {
        let wrong = json!({"a": 1});
        for schema in [
            json!({"type": "no such type"}),
            json!({"$ref": "#"}),
            json!({"$ref": "http://127.0.0.1:9/schema.json"}),
            json!({"properties": {"a": {"type": "string", "pattern": "(?=x)y"}}}),
            json!([1]),
        ] {
            assert_eq!(
                check(&schema, &wrong),
                Ok(()),
                "{}",
                schema.to_string().get(..60).unwrap_or_default()
            );
        }
        let deep = format!("{}{{}}{}", r#"{"not":"#.repeat(500), "}".repeat(500));
        let deep = RawValue::from_string(deep).unwrap();
        assert_eq!(ArgumentCheck::default().check("t", Some(&deep), &raw(&wrong)), Ok(()));
    }

    #[test]
    fn recursive_schemas_check_what_they_can_afford() {
        let schema = json!({"properties": {"next": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}, "name": {"type": "string"}}});
        assert!(check(&schema, &json!({"next": {"next": {"name": 1}}})).is_err());
        let deep = (0..60).fold(json!({"name": 1}), |inner, _| json!({ "next": inner }));
        assert_eq!(check(&schema, &deep), Ok(()));
    }

    #[test]
    fn wide_recursion_compiles_in_time() {
        let level = |next: usize| {
            let next = json!({ "$ref": format!("#/$defs/{next}") });
            json!({"properties": {"a": next, "b": next}})
        };
        let mut definitions: serde_json::Map<_, _> =
            (0..60).map(|at| (at.to_string(), level(at + 1))).collect();
        definitions.insert("60".into(), json!({"type": "string"}));
        let schema = json!({"$ref": "#/$defs/0", "$defs": definitions});
        assert_eq!(check(&schema, &json!({"a": {"b": {}}})), Ok(()));
    }

    #[test]
    fn a_schema_is_compiled_once() {
        let check = ArgumentCheck::default();
        let shared = check.clone();
        let schema = raw(&json!({"required": ["a"]}));
        assert!(check.check("t", Some(&schema), &raw(&json!({}))).is_err());
        assert!(shared.compiled.get().is_some());
    }
}
