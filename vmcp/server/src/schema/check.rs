//! Checks a call's arguments against the tool's input schema before the backend sees them.
//!
//! A schema is compiled when its tool is first called, on a blocking thread, and kept as long as the
//! definition's hash stays. A schema that does not compile, or that would cost too much to evaluate, is
//! logged once and skips the check: the backend still checks for itself. (Size and depth of a schema are
//! bounded by `vmcp_model::definition`.)

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;
use serde_json::value::RawValue;
use vmcp_model::catalog::CatalogTool;

use super::blocking;
use super::cost::{Cost, CostError};

/// Deepest instance that costs are worked out for: the upper limit of `optimizer.limits.parametersDepth`.
const MAX_DEPTH: usize = 127;
/// Longest arguments that are checked on the thread that serves the connection, in bytes: patterns and
/// lengths cost by the byte.
const MAX_CHEAP_BYTES: usize = 4 * 1024;
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
    /// Checks `arguments`, which must be valid JSON, against the tool's input schema. The error lists
    /// violations by JSON pointer, for the model that wrote the arguments. Work beyond about 50 microseconds
    /// is done on a blocking thread.
    pub(crate) async fn check(&self, tool: &Arc<CatalogTool>, arguments: &RawValue) -> Result<(), String> {
        if let Some(checked) = self.check_cheaply(tool, arguments) {
            return checked;
        }
        let (check, owned, arguments) = (self.clone(), Arc::clone(tool), arguments.to_owned());
        let work = move || match owned.definition.input_schema.as_deref() {
            Some(schema) => check.check_blocking(&owned.name, schema, &arguments),
            None => Ok(()),
        };
        blocking::run(work).await.unwrap_or_else(|| {
            tracing::error!(tool = tool.name, "the check of arguments has failed; they are not checked");
            Ok(())
        })
    }

    /// Checks arguments at once if that is certain to be cheap: the schema is compiled, the arguments are
    /// short, and no recursion multiplies the work.
    fn check_cheaply(&self, tool: &CatalogTool, arguments: &RawValue) -> Option<Result<(), String>> {
        if tool.definition.input_schema.is_none() {
            return Some(Ok(()));
        }
        let Some(compiled) = self.compiled.get()? else { return Some(Ok(())) };
        let json = arguments.get().as_bytes();
        let cheap = json.len() <= MAX_CHEAP_BYTES && compiled.cost.of_instance(json).is_cheap();
        cheap.then(|| compiled.validate(arguments))
    }

    /// Checks arguments, compiling the schema if need be: for threads that may be kept busy.
    fn check_blocking(&self, tool: &str, schema: &RawValue, arguments: &RawValue) -> Result<(), String> {
        let compiled = self.compiled.get_or_init(|| {
            compile(schema.get())
                .inspect_err(|reason| {
                    tracing::warn!(tool, %reason, "arguments of this tool are not checked: its input schema cannot be used");
                })
                .ok()
        });
        let Some(compiled) = compiled else { return Ok(()) };
        if !compiled.cost.of_instance(arguments.get().as_bytes()).is_affordable() {
            tracing::warn!(tool, "arguments of this call are not checked: checking them would cost too much");
            return Ok(());
        }
        compiled.validate(arguments)
    }

    /// True if the two share the compiled schema.
    #[cfg(test)]
    pub(crate) fn is(&self, other: &ArgumentCheck) -> bool {
        Arc::ptr_eq(&self.compiled, &other.compiled)
    }
}

impl Compiled {
    fn validate(&self, arguments: &RawValue) -> Result<(), String> {
        let value: Value = serde_json::from_str(arguments.get()).map_err(|error| error.to_string())?;
        let validator = &self.validator;
        if validator.is_valid(&value) { Ok(()) } else { Err(describe(validator.iter_errors(&value))) }
    }
}

fn compile(schema: &str) -> Result<Compiled, Unusable> {
    let schema: Value = serde_json::from_str(schema)?;
    let cost = Cost::of(&schema, MAX_DEPTH)?;
    if !cost.least().is_affordable() {
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
    use std::pin::pin;
    use std::task::Poll;

    use futures::poll;
    use serde_json::json;
    use vmcp_config::Aggregation;
    use vmcp_model::catalog::Catalog;
    use vmcp_model::discovered::{Discovered, Listing};

    fn raw(value: &Value) -> Box<RawValue> {
        serde_json::value::to_raw_value(value).unwrap()
    }

    fn check(schema: &Value, arguments: &Value) -> Result<(), String> {
        ArgumentCheck::default().check_blocking("t", &raw(schema), &raw(arguments))
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
        assert_eq!(ArgumentCheck::default().check_blocking("t", &deep, &raw(&wrong)), Ok(()));
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
        assert!(check.check_blocking("t", &schema, &raw(&json!({}))).is_err());
        assert!(shared.compiled.get().is_some());
    }

    #[tokio::test]
    async fn a_costly_check_does_not_stall_the_thread_that_asks_for_it() {
        let numbers = json!({"properties": {"n": {"type": "array", "items": {"anyOf": [
            {"type": "string"}, {"type": "integer", "minimum": 0}]}}}});
        let tools = vec![raw(&json!({"name": "t", "inputSchema": numbers}))];
        let listing = Arc::new(Discovered::read(Listing { tools, ..Listing::default() }));
        let catalog = Catalog::build(&[("b".into(), listing)], &Aggregation::default());
        let (check, tool) = (ArgumentCheck::default(), &catalog.tools[0]);
        let few = raw(&json!({"n": [1, 2, 3]}));
        // Compiling is costly, too: the first check leaves the thread, the next need not.
        assert!(poll!(pin!(check.check(tool, &few))).is_pending());
        assert_eq!(check.check(tool, &few).await, Ok(()));
        assert_eq!(poll!(pin!(check.check(tool, &few))), Poll::Ready(Ok(())));
        let mut many = vec![1; 50_000];
        many.push(-1);
        let many = raw(&json!({ "n": many }));
        let mut checked = pin!(check.check(tool, &many));
        assert!(poll!(&mut checked).is_pending(), "it goes on elsewhere");
        assert!(checked.await.unwrap_err().starts_with("/n/50000: "));
    }
}
