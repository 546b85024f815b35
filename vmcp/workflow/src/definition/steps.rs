//! Steps as defined: what each does, with its templates, times and limits.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Map, Value};

use super::{
    Action, Arguments, COMPOSITE, Call, ForEach, MAX_ITERATIONS, MAX_RETRIES, MAX_SCHEMA, MAX_SCHEMA_DEPTH,
    MAX_TIMEOUT, Question, STEP_TIMEOUT,
};
use crate::duration;
use crate::mistakes::Mistakes;
use crate::raw::{RawErrorAction, RawInnerStep, RawOnError, RawStep, RawStepKind};
use crate::template::Template;

/// Most items in work at once.
const MAX_PARALLEL_ITEMS: u32 = 50;
const ITERATIONS: usize = 100;
const PARALLEL_ITEMS: u32 = 10;
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Reads a template; a mistake is reported.
pub(super) fn template(source: &str, path: &str, mistakes: &mut Mistakes) -> Option<Template> {
    match Template::parse(source) {
        Ok(template) => Some(template),
        Err(error) => {
            mistakes.add(path, error, "write it as Go's text/template, with json, quote and fromJson");
            None
        }
    }
}

/// Reads a duration; a mistake is reported, and the default taken.
pub(super) fn timeout(
    written: Option<&String>,
    default: Duration,
    path: &str,
    mistakes: &mut Mistakes,
) -> Duration {
    let Some(text) = written else { return default };
    match duration::parse(text) {
        Some(duration) if !duration.is_zero() && duration <= MAX_TIMEOUT => duration,
        Some(_) => {
            mistakes.add(path, format!("`{text}` is out of range"), "write more than 0 and at most 24h");
            default
        }
        None => {
            mistakes.add(path, format!("`{text}` is no duration"), "write it as 30s, 5m or 1h30m");
            default
        }
    }
}

/// Action of a step, and the steps that its templates refer to.
pub(super) struct ReadAction {
    pub(super) action: Action,
    pub(super) steps: BTreeSet<String>,
    pub(super) outputs: BTreeSet<String>,
}

/// Reads what a step does.
pub(super) fn action(raw: &RawStep, path: &str, mistakes: &mut Mistakes) -> Option<ReadAction> {
    let mut found = Found::default();
    let kind = raw.kind.unwrap_or(RawStepKind::Tool);
    misplaced(raw, kind, path, mistakes);
    let action = match kind {
        RawStepKind::Tool => {
            let written = Written {
                tool: raw.tool.as_ref(),
                arguments: raw.arguments.as_ref(),
                on_error: raw.on_error.as_ref(),
                timeout: raw.timeout.as_ref(),
            };
            Action::Call(call(&written, path, &mut found, mistakes)?)
        }
        RawStepKind::Elicitation => Action::Ask(question(raw, path, &mut found, mistakes)?),
        RawStepKind::ForEach => Action::ForEach(for_each(raw, path, &mut found, mistakes)?),
    };
    Some(ReadAction { action, steps: found.steps, outputs: found.outputs })
}

/// Collects the references of templates.
#[derive(Default)]
struct Found {
    steps: BTreeSet<String>,
    outputs: BTreeSet<String>,
}

impl Found {
    fn note(&mut self, template: &Template) {
        self.steps.extend(template.steps.iter().cloned());
        self.outputs.extend(template.outputs.iter().cloned());
    }
}

/// Reports keys that belong to another kind of step.
fn misplaced(raw: &RawStep, kind: RawStepKind, path: &str, mistakes: &mut Mistakes) {
    let keys = [
        ("tool", raw.tool.is_some(), RawStepKind::Tool),
        ("arguments", raw.arguments.is_some(), RawStepKind::Tool),
        ("message", raw.message.is_some(), RawStepKind::Elicitation),
        ("schema", raw.schema.is_some(), RawStepKind::Elicitation),
        ("onDecline", raw.on_decline.is_some(), RawStepKind::Elicitation),
        ("onCancel", raw.on_cancel.is_some(), RawStepKind::Elicitation),
        ("collection", raw.collection.is_some(), RawStepKind::ForEach),
        ("step", raw.step.is_some(), RawStepKind::ForEach),
    ];
    for (key, is_written, belongs_to) in keys {
        if is_written && belongs_to != kind {
            let owner = serde_json::to_string(&belongs_to).unwrap_or_default();
            let message = format!("only a step of type {owner} has it");
            mistakes.add(format!("{path}.{key}"), message, "remove it, or correct `type`");
        }
    }
}

/// Keys of a call, of a step or of the inner step of a `forEach`.
struct Written<'a> {
    tool: Option<&'a String>,
    arguments: Option<&'a Map<String, Value>>,
    on_error: Option<&'a RawOnError>,
    timeout: Option<&'a String>,
}

fn call(written: &Written<'_>, path: &str, found: &mut Found, mistakes: &mut Mistakes) -> Option<Call> {
    let timeout = timeout(written.timeout, STEP_TIMEOUT, &format!("{path}.timeout"), mistakes);
    let (retries, retry_delay) = retries(written.on_error, path, mistakes);
    let arguments = written.arguments.cloned().unwrap_or_default();
    let arguments = arguments_of(&Value::Object(arguments), &format!("{path}.arguments"), found, mistakes);
    let Some(tool) = written.tool.filter(|tool| !tool.is_empty()) else {
        mistakes.add(format!("{path}.tool"), "missing", "add the listed name of a tool, or `backend.tool`");
        return None;
    };
    if tool.strip_prefix(COMPOSITE).is_some_and(|rest| rest.starts_with('.')) {
        let remedy = "name a tool of a backend, and take over the steps of the composite tool";
        mistakes.add(format!("{path}.tool"), format!("`{tool}` is a composite tool itself"), remedy);
    }
    Some(Call { tool: tool.clone(), arguments, timeout, retries, retry_delay })
}

fn retries(written: Option<&RawOnError>, path: &str, mistakes: &mut Mistakes) -> (u32, Duration) {
    let path = format!("{path}.onError");
    let default = RawOnError::default();
    let written = written.unwrap_or(&default);
    let delay = timeout(written.retry_delay.as_ref(), RETRY_DELAY, &format!("{path}.retryDelay"), mistakes);
    if written.action != Some(RawErrorAction::Retry) {
        return (0, delay);
    }
    let count = written.retry_count.unwrap_or(1);
    if !(1..=MAX_RETRIES).contains(&count) {
        let remedy = format!("write 1 to {MAX_RETRIES}");
        mistakes.add(format!("{path}.retryCount"), format!("{count} is out of range"), remedy);
    }
    (count.min(MAX_RETRIES), delay)
}

fn arguments_of(value: &Value, path: &str, found: &mut Found, mistakes: &mut Mistakes) -> Arguments {
    match value {
        Value::String(text) if text.contains("{{") => match template(text, path, mistakes) {
            Some(template) => {
                found.note(&template);
                Arguments::Template(template)
            }
            None => Arguments::Constant(Value::Null),
        },
        Value::Array(items) => {
            let items = items.iter().enumerate();
            let read = |(index, item)| arguments_of(item, &format!("{path}[{index}]"), found, mistakes);
            Arguments::List(items.map(read).collect())
        }
        Value::Object(entries) => {
            let entries = entries.iter();
            let read = |(key, value): (&String, &Value)| {
                (key.clone(), arguments_of(value, &format!("{path}.{key}"), found, mistakes))
            };
            Arguments::Object(entries.map(read).collect())
        }
        constant => Arguments::Constant(constant.clone()),
    }
}

/// Reads the time limit of a step that has none unless it is written.
fn written_timeout(raw: &RawStep, path: &str, mistakes: &mut Mistakes) -> Option<Duration> {
    let written = raw.timeout.as_ref()?;
    Some(timeout(Some(written), STEP_TIMEOUT, &format!("{path}.timeout"), mistakes))
}

fn question(raw: &RawStep, path: &str, found: &mut Found, mistakes: &mut Mistakes) -> Option<Question> {
    let timeout = written_timeout(raw, path, mistakes);
    let message = raw.message.as_deref().filter(|message| !message.is_empty());
    let Some(message) = message else {
        mistakes.add(format!("{path}.message"), "missing", "add the question, a template");
        return None;
    };
    let message = template(message, &format!("{path}.message"), mistakes)?;
    found.note(&message);
    let schema = raw.schema.clone().unwrap_or_default();
    let bytes = serde_json::to_string(&schema).map_or(0, |text| text.len());
    if bytes > MAX_SCHEMA {
        let message = format!("the schema has {bytes} bytes; at most {MAX_SCHEMA} are sent");
        mistakes.add(format!("{path}.schema"), message, "ask for less at once");
    }
    if let Some(kind) = schema.get("type").filter(|kind| kind.as_str() != Some("object")) {
        let remedy = "write `type: object`, with a property for each field of the form";
        mistakes.add(format!("{path}.schema.type"), format!("{kind} is no type for a form"), remedy);
    }
    if schema.values().any(|value| is_deeper(value, MAX_SCHEMA_DEPTH - 1)) {
        let message = format!("nested deeper than {MAX_SCHEMA_DEPTH} levels");
        mistakes.add(
            format!("{path}.schema"),
            message,
            "ask for single values: clients show no nested forms",
        );
    }
    let on = |refusal: &Option<crate::raw::RawOnRefusal>| {
        refusal.as_ref().and_then(|refusal| refusal.action).unwrap_or_default()
    };
    let (on_decline, on_cancel) = (on(&raw.on_decline), on(&raw.on_cancel));
    Some(Question { message, schema, on_decline, on_cancel, timeout })
}

/// True if lists and objects are nested deeper than `levels`.
fn is_deeper(value: &Value, levels: usize) -> bool {
    let Some(left) = levels.checked_sub(1) else { return value.is_array() || value.is_object() };
    match value {
        Value::Array(items) => items.iter().any(|item| is_deeper(item, left)),
        Value::Object(entries) => entries.values().any(|item| is_deeper(item, left)),
        _ => false,
    }
}

fn for_each(raw: &RawStep, path: &str, found: &mut Found, mistakes: &mut Mistakes) -> Option<ForEach> {
    let timeout = written_timeout(raw, path, mistakes);
    let item = raw.item_var.clone().unwrap_or_else(|| "item".to_owned());
    if !is_template_name(&item) || item == "index" {
        let remedy = "use letters, digits and `_`; `.forEach.index` is the place of the item";
        mistakes.add(format!("{path}.itemVar"), format!("`{item}` cannot name an item in templates"), remedy);
    }
    let max_iterations = raw.max_iterations.map_or(ITERATIONS, |most| most as usize);
    if !(1..=MAX_ITERATIONS).contains(&max_iterations) {
        let remedy = format!("write 1 to {MAX_ITERATIONS}");
        mistakes.add(format!("{path}.maxIterations"), format!("{max_iterations} is out of range"), remedy);
    }
    let max_parallel = raw.max_parallel.unwrap_or(PARALLEL_ITEMS);
    if !(1..=MAX_PARALLEL_ITEMS).contains(&max_parallel) {
        let remedy = format!("write 1 to {MAX_PARALLEL_ITEMS}");
        mistakes.add(format!("{path}.maxParallel"), format!("{max_parallel} is out of range"), remedy);
    }
    let written = raw.collection.as_deref().filter(|text| !text.is_empty());
    let collection = written.and_then(|text| template(text, &format!("{path}.collection"), mistakes));
    if written.is_none() {
        let remedy = "add a template that yields a list, such as {{.steps.search.output.items}}";
        mistakes.add(format!("{path}.collection"), "missing", remedy);
    }
    if let Some(collection) = &collection {
        found.note(collection);
        constant_items(collection.source(), max_iterations, &format!("{path}.collection"), mistakes);
    }
    let Some(inner) = &raw.step else {
        mistakes.add(format!("{path}.step"), "missing", "add the call for each item");
        return None;
    };
    let call = inner_call(inner, raw, &format!("{path}.step"), found, mistakes);
    let on_error = |it: &Option<RawOnError>| it.as_ref().and_then(|it| it.action);
    let action = on_error(&inner.on_error).or(on_error(&raw.on_error));
    Some(ForEach {
        collection: collection?,
        item,
        max_iterations: max_iterations.clamp(1, MAX_ITERATIONS),
        max_parallel: max_parallel.clamp(1, MAX_PARALLEL_ITEMS) as usize,
        call: call?,
        items_may_fail: action == Some(RawErrorAction::Continue),
        timeout,
    })
}

/// True for a name that a template can write behind a dot.
fn is_template_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_alphanumeric() || c == '_';
    name.chars().next().is_some_and(|first| !first.is_numeric()) && name.chars().all(is_allowed)
}

/// Reports a constant collection that no run could take.
fn constant_items(source: &str, most: usize, path: &str, mistakes: &mut Mistakes) {
    if source.contains("{{") {
        return;
    }
    match serde_json::from_str::<Value>(source) {
        Ok(Value::Array(items)) if items.len() > most => {
            let message = format!("{} items; `maxIterations` is {most}", items.len());
            let remedy = format!("raise `maxIterations`, to {MAX_ITERATIONS} at most, or split the list");
            mistakes.add(path, message, remedy);
        }
        Ok(Value::Array(_) | Value::Null) => {}
        Ok(_) | Err(_) => {
            mistakes.add(path, "not the JSON of a list", "write it as [1, 2], or as a template");
        }
    }
}

fn inner_call(
    inner: &RawInnerStep,
    outer: &RawStep,
    path: &str,
    found: &mut Found,
    mistakes: &mut Mistakes,
) -> Option<Call> {
    if inner.kind.is_some_and(|kind| kind != RawStepKind::Tool) {
        mistakes.add(format!("{path}.type"), "an item can only be given to a tool", "write `type: tool`");
    }
    let written = Written {
        tool: inner.tool.as_ref(),
        arguments: inner.arguments.as_ref(),
        on_error: inner.on_error.as_ref().or(outer.on_error.as_ref()),
        timeout: inner.timeout.as_ref(),
    };
    call(&written, path, found, mistakes)
}
