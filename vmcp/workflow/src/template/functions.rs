//! Functions of templates: ToolHive's `json`, `quote` and `fromJson`, and the functions that
//! [`guards`](super::guards) put into a tree. Their names end in `!`, which no template can write.

use std::sync::{Arc, LazyLock};

use gotmpl::TemplateError;
use gotmpl::{Template, Value};

use super::{MAX_TEXT, compare, data, go_fmt, go_json, time_limit, too_large};

/// Functions that a template may use: those of Go, and ToolHive's.
pub(super) const KNOWN: [&str; 22] = [
    "and", "call", "eq", "fromJson", "ge", "gt", "html", "index", "js", "json", "le", "len", "lt", "ne",
    "not", "or", "print", "printf", "println", "quote", "slice", "urlquery",
];
/// Functions that make texts of texts.
pub(super) const TEXT_MAKERS: [&str; 6] = ["html", "js", "print", "printf", "println", "urlquery"];
/// Functions whose arguments must be there; null is.
pub(super) const DEMANDING: [&str; 16] = [
    "fromJson", "ge", "gt", "html", "index", "js", "json", "le", "len", "lt", "print", "printf", "println",
    "quote", "slice", "urlquery",
];

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
/// `nothing!`: no value, as the data of a template that is called with none.
pub(super) const NOTHING: &str = "nothing!";

type Outcome = Result<Value, TemplateError>;

/// Returns an engine without trees that knows all functions.
pub(super) fn program() -> Template {
    static PROGRAM: LazyLock<Template> = LazyLock::new(|| {
        compare::with_comparisons(Template::new(""))
            .func("print", |args| Ok(text(go_fmt::sprint(args))))
            .func("println", |args| Ok(text(go_fmt::sprintln(args))))
            .func("printf", printf)
            .func("html", |args| escaped(args, gotmpl::html_escape))
            .func("js", |args| escaped(args, gotmpl::js_escape))
            .func("urlquery", |args| escaped(args, gotmpl::url_encode))
            .func(NOTHING, |_| Ok(Value::Nil))
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
    match one("quote", args)? {
        value @ Value::String(_) => bounded(text(go_fmt::sprintf("%q", std::slice::from_ref(value)))),
        _ => fail("quote takes a text; `json` writes any value"),
    }
}

fn printf(args: &[Value]) -> Outcome {
    match args {
        [Value::String(format), values @ ..] => Ok(text(go_fmt::sprintf(format, values))),
        _ => fail("printf takes a format first, a text such as \"%s\""),
    }
}

/// Escapes values as Go does: a text as it is, all else as `print` writes it.
fn escaped(args: &[Value], escape: fn(&str) -> String) -> Outcome {
    if args.is_empty() {
        return fail("wrong number of arguments: at least 1 is needed, and there are 0");
    }
    let shown = |value: &Value| match value {
        Value::Nil => text("<no value>".to_owned()),
        value => value.clone(),
    };
    let plain = go_fmt::sprint(&args.iter().map(shown).collect::<Vec<_>>());
    if plain.len() > MAX_TEXT {
        return fail(too_large());
    }
    Ok(text(escape(&plain)))
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
        value @ (Value::Float(_) | Value::List(_) | Value::Map(_)) => {
            bounded(text(go_fmt::sprint(std::slice::from_ref(&value))))
        }
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
