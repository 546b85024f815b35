//! Functions of templates: ToolHive's `json`, `quote` and `fromJson`, and the functions that
//! [`guards`](super::guards) put into a tree. Their names end in `!`, which no template can write.

use std::sync::{Arc, LazyLock};

use gotmpl::TemplateError;
use gotmpl::{Template, Value};

use super::{MAX_TEXT, data, go_json, time_limit, too_large};

/// Functions that a template may use: those of Go, and ToolHive's.
pub(super) const KNOWN: [&str; 22] = [
    "and", "call", "eq", "fromJson", "ge", "gt", "html", "index", "js", "json", "le", "len", "lt", "ne",
    "not", "or", "print", "printf", "println", "quote", "slice", "urlquery",
];
/// Functions that make texts of texts.
pub(super) const TEXT_MAKERS: [&str; 6] = ["html", "js", "print", "printf", "println", "urlquery"];
/// Functions whose argument must be there.
pub(super) const DEMANDING: [&str; 3] = ["fromJson", "json", "quote"];

/// `present! "name" value`: the value, which must not be nothing.
pub(super) const PRESENT: &str = "present!";
/// `shown! "name" value`: the value, as it is printed; it must not be nothing.
pub(super) const SHOWN: &str = "shown!";
/// `given! "a.b" $ value`: the value; nothing only if the root has it so.
pub(super) const GIVEN: &str = "given!";
/// `bounded! text`: the text, unless it is too large.
pub(super) const BOUNDED: &str = "bounded!";
/// `in_time!`: an empty text, unless the time of the rendering is over.
pub(super) const IN_TIME: &str = "in_time!";
/// `value! value`: the value as JSON.
pub(super) const JSON_VALUE: &str = "value!";

type Outcome = Result<Value, TemplateError>;

/// Returns an engine without trees that knows all functions.
pub(super) fn program() -> Template {
    static PROGRAM: LazyLock<Template> = LazyLock::new(|| {
        Template::new("")
            .func("json", |args| Ok(text(go_json::encode(one("json", args)?)?)))
            .func("quote", quote)
            .func("fromJson", from_json)
            .func(PRESENT, present)
            .func(SHOWN, shown)
            .func(GIVEN, given)
            .func(BOUNDED, |args| bounded(one("print", args)?.clone()))
            .func(IN_TIME, |_| time_limit::check().map_or_else(fail, |()| Ok(text(String::new()))))
            .func(JSON_VALUE, |args| Ok(text(go_json::encode(one("value", args)?)?)))
    });
    PROGRAM.clone()
}

fn fail<T>(message: impl Into<String>) -> Result<T, TemplateError> {
    Err(TemplateError::Exec(message.into()))
}

fn text(text: String) -> Value {
    Value::String(text.into())
}

fn one<'a>(name: &str, args: &'a [Value]) -> Result<&'a Value, TemplateError> {
    match args {
        [value] => Ok(value),
        _ => Err(TemplateError::ArgCount { name: name.to_owned(), expected: 1, got: args.len() }),
    }
}

/// Quotes a text as Go's `%q` does.
fn quote(args: &[Value]) -> Outcome {
    static QUOTE: LazyLock<Option<Template>> =
        LazyLock::new(|| Template::new("quote").parse(r#"{{printf "%q" .}}"#).ok());
    let value = one("quote", args)?;
    match (value, &*QUOTE) {
        (Value::String(_), Some(quote)) => bounded(text(quote.execute_to_string(value)?)),
        _ => fail("quote takes a text; `json` writes any value"),
    }
}

fn from_json(args: &[Value]) -> Outcome {
    let Value::String(json) = one("fromJson", args)? else {
        return fail("fromJson takes a text; this value is none, so use it as it is");
    };
    match serde_json::from_str(json) {
        Ok(value) => Ok(data::from_json(&value)),
        Err(error) => fail(format!("fromJson: the text is not JSON: {error}")),
    }
}

fn present(args: &[Value]) -> Outcome {
    match args {
        [Value::String(name), Value::Nil] => fail(format!("{name} is missing or null")),
        [_, value] => Ok(value.clone()),
        _ => Ok(Value::Nil),
    }
}

fn shown(args: &[Value]) -> Outcome {
    match present(args)? {
        Value::Float(number) => Ok(text(go_json::shown_float(number))),
        value => Ok(value),
    }
}

fn given(args: &[Value]) -> Outcome {
    let [Value::String(path), root, value] = args else { return Ok(Value::Nil) };
    if !matches!(value, Value::Nil) {
        return Ok(value.clone());
    }
    let mut at = Some(root);
    for field in path.split('.').filter(|field| !field.is_empty()) {
        at = at.and_then(|value| value.field(field));
    }
    match at {
        Some(_) => Ok(Value::Nil),
        None => fail(format!("{path} is missing")),
    }
}

fn bounded(value: Value) -> Outcome {
    time_limit::check().or_else(fail)?;
    match &value {
        Value::String(text) if text.len() > MAX_TEXT => fail(too_large()),
        _ => Ok(value),
    }
}

/// Writes a name as a value.
pub(super) fn name(name: &str) -> Arc<str> {
    name.into()
}
