//! Checks a call's arguments against the tool's input schema before the backend sees them, and the structured
//! content of its result against the output schema.
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
use super::mending::{self, Fit};
use super::patterns;

/// Deepest instance that costs are worked out for: the upper limit of `optimizer.limits.parametersDepth`.
const MAX_DEPTH: usize = 127;
/// Longest JSON that is checked on the thread that serves the connection, in bytes: patterns and lengths cost
/// by the byte.
const MAX_CHEAP_BYTES: usize = 4 * 1024;
/// Memory that one regular expression may compile to, in bytes.
const MAX_PATTERN_BYTES: usize = 1024 * 1024;
/// Most violations that an error names.
const MAX_VIOLATIONS: usize = 5;
/// Longest text of one violation, in characters; enumerations can be long.
const MAX_VIOLATION_CHARS: usize = 300;
/// Longest arguments that are mended, in bytes; longer ones are only checked.
const MAX_MENDED_BYTES: usize = 64 * 1024;
/// Most bytes that errors may copy of an instance: those of a union copy it for each branch.
const MAX_COPIED_BYTES: u64 = 64 * 1024 * 1024;

/// Arguments of a call after the check against the tool's schema.
#[derive(Debug)]
pub enum CheckedArguments {
    /// They go to the server as they were written: they fit, or nothing can check them.
    AsWritten,
    /// These go to the server in their place.
    Mended(Box<RawValue>),
    /// They do not fit; the text lists the violations.
    Refused(String),
}

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

/// The schemas of a tool, compiled on first use. Clones share the compiled schemas.
#[derive(Clone, Default)]
pub struct ToolChecks {
    input: Arc<OnceLock<Option<Compiled>>>,
    output: Arc<OnceLock<Option<Compiled>>>,
}

/// JSON of a call that a schema of its tool describes.
#[derive(Debug, Clone, Copy)]
enum CallPart {
    Arguments,
    Result,
}

impl CallPart {
    /// Returns the schema that a tool has for it.
    fn schema(self, tool: &CatalogTool) -> Option<&RawValue> {
        match self {
            CallPart::Arguments => tool.definition.input_schema.as_deref(),
            CallPart::Result => tool.definition.output_schema.as_deref(),
        }
    }

    /// Returns its name in messages.
    fn name(self) -> &'static str {
        match self {
            CallPart::Arguments => "arguments",
            CallPart::Result => "result",
        }
    }
}

impl ToolChecks {
    /// Checks `arguments`, which must be valid JSON, against the tool's input schema. The error lists
    /// violations by JSON pointer, for the model that wrote the arguments. Work beyond about 50 microseconds
    /// is done on a blocking thread.
    pub async fn check(&self, tool: &Arc<CatalogTool>, arguments: &RawValue) -> Result<(), String> {
        self.check_part(CallPart::Arguments, tool, arguments).await
    }

    /// Checks `arguments` as [`check`](Self::check) does, and mends values of another type than the schema's
    /// ([`mending`]). Scalars of a wrong type that cannot be mended are left to the server.
    pub async fn mend(&self, tool: &Arc<CatalogTool>, arguments: &RawValue) -> CheckedArguments {
        if let Some(CheckedArguments::AsWritten) = self.mend_cheaply(tool, arguments) {
            return CheckedArguments::AsWritten;
        }
        let (checks, owned, arguments) = (self.clone(), Arc::clone(tool), arguments.to_owned());
        let work = move || match CallPart::Arguments.schema(&owned) {
            Some(schema) => checks.mend_blocking(&owned.name, schema, &arguments),
            None => CheckedArguments::AsWritten,
        };
        blocking::run(work).await.unwrap_or_else(|| {
            tracing::error!(tool = tool.name, "mending of arguments has failed; they are sent as they are");
            CheckedArguments::AsWritten
        })
    }

    /// Decides at once if that is certain to be cheap and the arguments fit.
    fn mend_cheaply(&self, tool: &CatalogTool, arguments: &RawValue) -> Option<CheckedArguments> {
        if tool.definition.input_schema.is_none() {
            return Some(CheckedArguments::AsWritten);
        }
        let Some(compiled) = self.input.get()? else { return Some(CheckedArguments::AsWritten) };
        let value = compiled.is_cheap(arguments).then(|| serde_json::from_str(arguments.get()).ok())??;
        compiled.takes(&value).then_some(CheckedArguments::AsWritten)
    }

    fn mend_blocking(&self, tool: &str, schema: &RawValue, arguments: &RawValue) -> CheckedArguments {
        let Some(compiled) = self.get_or_compile(CallPart::Arguments, tool, schema) else {
            return CheckedArguments::AsWritten;
        };
        let Ok(written) = serde_json::from_str(arguments.get()) else { return CheckedArguments::AsWritten };
        if !compiled.may_explain(arguments.get()) || arguments.get().len() > MAX_MENDED_BYTES {
            let checked = self.check_blocking(CallPart::Arguments, tool, schema, arguments);
            return checked.map_or_else(CheckedArguments::Refused, |()| CheckedArguments::AsWritten);
        }
        if compiled.takes(&written) {
            return CheckedArguments::AsWritten;
        }
        let work = compiled.cost.of_instance(arguments.get().as_bytes());
        let validations = work.affordable_times(mending::MAX_VALIDATIONS);
        let mended = mending::mend(&compiled.validator, &written, validations, |value| {
            let json = value.to_string();
            compiled.cost.of_instance(json.as_bytes()).is_affordable() && compiled.may_explain(&json)
        });
        if mended.fit == Fit::No {
            let errors = compiled.validator.iter_errors(&mended.value);
            return CheckedArguments::Refused(describe(CallPart::Arguments, errors));
        }
        // Compared as text: `3` and `3.0` are different numbers to a server.
        let (json, before) = (serde_json::value::to_raw_value(&mended.value).ok(), written.to_string());
        json.filter(|json| json.get() != before).map_or(CheckedArguments::AsWritten, CheckedArguments::Mended)
    }

    /// Checks the structured content of a result against the tool's output schema, like
    /// [`check`](Self::check).
    pub async fn check_result(&self, tool: &Arc<CatalogTool>, structured: &RawValue) -> Result<(), String> {
        self.check_part(CallPart::Result, tool, structured).await
    }

    async fn check_part(
        &self,
        part: CallPart,
        tool: &Arc<CatalogTool>,
        json: &RawValue,
    ) -> Result<(), String> {
        if let Some(checked) = self.check_cheaply(part, tool, json) {
            return checked;
        }
        let (checks, owned, json) = (self.clone(), Arc::clone(tool), json.to_owned());
        let work = move || match part.schema(&owned) {
            Some(schema) => checks.check_blocking(part, &owned.name, schema, &json),
            None => Ok(()),
        };
        blocking::run(work).await.unwrap_or_else(|| {
            tracing::error!(
                tool = tool.name,
                part = part.name(),
                "a check against a schema has failed; it is skipped"
            );
            Ok(())
        })
    }

    fn compiled(&self, part: CallPart) -> &OnceLock<Option<Compiled>> {
        match part {
            CallPart::Arguments => &self.input,
            CallPart::Result => &self.output,
        }
    }

    /// Checks JSON at once if that is certain to be cheap: the schema is compiled, the JSON is short, and no
    /// recursion multiplies the work.
    fn check_cheaply(
        &self,
        part: CallPart,
        tool: &CatalogTool,
        json: &RawValue,
    ) -> Option<Result<(), String>> {
        if part.schema(tool).is_none() {
            return Some(Ok(()));
        }
        let Some(compiled) = self.compiled(part).get()? else { return Some(Ok(())) };
        compiled.is_cheap(json).then(|| compiled.validate(part, json))
    }

    /// Checks JSON, compiling the schema if need be: for threads that may be kept busy.
    fn check_blocking(
        &self,
        part: CallPart,
        tool: &str,
        schema: &RawValue,
        json: &RawValue,
    ) -> Result<(), String> {
        let Some(compiled) = self.get_or_compile(part, tool, schema) else { return Ok(()) };
        if !compiled.cost.of_instance(json.get().as_bytes()).is_affordable() {
            let part = part.name();
            tracing::warn!(tool, part, "a call is not checked: checking it would cost too much");
            return Ok(());
        }
        compiled.validate(part, json)
    }

    /// Returns the compiled schema; `None` if it cannot be used, which is logged once.
    fn get_or_compile(&self, part: CallPart, tool: &str, schema: &RawValue) -> Option<&Compiled> {
        let compile = || {
            compile(schema.get())
                .inspect_err(|reason| {
                    let part = part.name();
                    tracing::warn!(tool, part, %reason, "calls of this tool are not checked: its schema cannot be used");
                })
                .ok()
        };
        self.compiled(part).get_or_init(compile).as_ref()
    }

    /// True if the two share the compiled schema of arguments.
    #[cfg(any(test, feature = "testing"))]
    pub fn is(&self, other: &ToolChecks) -> bool {
        Arc::ptr_eq(&self.input, &other.input)
    }
}

impl Compiled {
    fn validate(&self, part: CallPart, json: &RawValue) -> Result<(), String> {
        let value: Value = serde_json::from_str(json.get()).map_err(|error| error.to_string())?;
        let validator = &self.validator;
        if validator.is_valid(&value) {
            Ok(())
        } else if self.may_explain(json.get()) {
            Err(describe(part, validator.iter_errors(&value)))
        } else {
            Err(format!("({}): the schema does not allow them", part.name()))
        }
    }

    /// True if JSON is checked on the thread that serves the connection.
    fn is_cheap(&self, json: &RawValue) -> bool {
        let bytes = json.get().as_bytes();
        bytes.len() <= MAX_CHEAP_BYTES && self.cost.of_instance(bytes).is_cheap()
    }

    /// True if errors may be collected: a hostile union would copy the instance without bound.
    fn may_explain(&self, json: &str) -> bool {
        self.cost.copied_bytes(json.as_bytes()) <= MAX_COPIED_BYTES
    }

    /// True if arguments are sent as they are.
    fn takes(&self, arguments: &Value) -> bool {
        self.validator.is_valid(arguments) && !mending::has_whole_float(arguments)
    }
}

fn compile(schema: &str) -> Result<Compiled, Unusable> {
    let mut schema: Value = serde_json::from_str(schema)?;
    let cost = Cost::measure(&schema, MAX_DEPTH)?;
    if !cost.least().is_affordable() {
        return Err(Unusable::Expensive);
    }
    let validator = build(&schema).or_else(|error| {
        // Patterns that this regex engine does not know, such as those with lookahead, are the server's to
        // check. Without them the rest of the schema may do.
        patterns::remove_unknown(&mut schema, MAX_PATTERN_BYTES);
        build(&schema).map_err(|_| error)
    })?;
    Ok(Compiled { validator, cost })
}

fn build(schema: &Value) -> Result<Validator, Unusable> {
    jsonschema::options()
        .offline()
        // This regex engine is linear in the text; a schema could abuse the backtracking of the default one.
        .with_pattern_options(
            PatternOptions::regex().size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES),
        )
        .build(schema)
        .map_err(|error| Unusable::Compile(shortened(error.to_string())))
}

fn describe<'a>(part: CallPart, errors: impl Iterator<Item = ValidationError<'a>>) -> String {
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
        let _ = match pointer.as_str() {
            "" => write!(text, "({}): {message}", part.name()),
            place => write!(text, "{place}: {message}"),
        };
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
        ToolChecks::default().check_blocking(CallPart::Arguments, "t", &raw(schema), &raw(arguments))
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
        assert_eq!(
            ToolChecks::default().check_blocking(CallPart::Arguments, "t", &deep, &raw(&wrong)),
            Ok(())
        );
    }

    #[test]
    fn a_pattern_that_cannot_be_used_costs_only_itself() {
        let schema = json!({"properties": {"a": {"type": "string", "pattern": "(?=x)y"}}});
        assert_eq!(check(&schema, &json!({"a": "z"})), Ok(()));
        assert!(check(&schema, &json!({"a": 1})).unwrap_err().contains("/a"));
    }

    #[test]
    fn errors_do_not_copy_an_instance_without_bound() {
        let branches = vec![json!({"type": "null"}); 5000];
        let schema = json!({"properties": {"a": {"anyOf": branches}}});
        let error = check(&schema, &json!({"a": "x".repeat(60_000)})).unwrap_err();
        assert_eq!(error, "(arguments): the schema does not allow them");
        assert!(check(&schema, &json!({"a": "x"})).unwrap_err().starts_with("/a: "));
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
        let check = ToolChecks::default();
        let shared = check.clone();
        let schema = raw(&json!({"required": ["a"]}));
        assert!(check.check_blocking(CallPart::Arguments, "t", &schema, &raw(&json!({}))).is_err());
        assert!(shared.input.get().is_some());
    }

    #[tokio::test]
    async fn a_costly_check_does_not_stall_the_thread_that_asks_for_it() {
        let numbers = json!({"properties": {"n": {"type": "array", "items": {"anyOf": [
            {"type": "string"}, {"type": "integer", "minimum": 0}]}}}});
        let tools = vec![raw(&json!({"name": "t", "inputSchema": numbers}))];
        let listing = Arc::new(Discovered::read(Listing { tools, ..Listing::default() }));
        let catalog = Catalog::build(&[("b".into(), listing)], &Aggregation::default());
        let (check, tool) = (ToolChecks::default(), &catalog.tools[0]);
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
