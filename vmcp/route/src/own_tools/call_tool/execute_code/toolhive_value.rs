//! Results of tools, and names, in scripts of ToolHive.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use vmcp_engine::engine::View;
use vmcp_script::names::python_name;
use vmcp_script::shapes::text_of;

/// Names that a script has besides its tools.
const BUILT_IN: [&str; 2] = ["call_tool", "parallel"];
/// Largest magnitude of a float that is read as a whole number: larger ones are not exact.
const MAX_WHOLE: f64 = 9_007_199_254_740_992.0;

/// Returns the value of a result: its structured content, of which `{"result": value}` is the value; else its
/// first text, parsed if it is JSON; else nothing. A float without a fraction becomes a whole number.
pub(super) fn of_result(result: &mut Value) -> Value {
    let mut value = value(result);
    make_whole(&mut value);
    value
}

fn value(result: &mut Value) -> Value {
    match result.get_mut("structuredContent").map(Value::take) {
        Some(Value::Object(mut wrapper)) if wrapper.len() == 1 => match wrapper.remove("result") {
            Some(inner) => return inner,
            None => return Value::Object(wrapper),
        },
        Some(structured) if !structured.is_null() => return structured,
        _ => {}
    }
    let blocks = result.get("content").and_then(Value::as_array);
    let text = blocks.and_then(|blocks| blocks.iter().find_map(text_of)).unwrap_or("null");
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

fn make_whole(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or_default();
            if float.fract() == 0.0 && float.abs() < MAX_WHOLE {
                *value = Value::from(float as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(make_whole),
        Value::Object(entries) => entries.values_mut().for_each(make_whole),
        _ => {}
    }
}

/// Returns the names of the functions that call tools, of those words that are in the text.
pub(super) fn functions(view: &View, code: &str) -> Vec<String> {
    let words: BTreeSet<&str> =
        code.split(|next: char| !next.is_ascii_alphanumeric() && next != '_').collect();
    let names = view.tools().map(|tool| python_name(&tool.name));
    let names = names.filter(|name| words.contains(name.as_str()) && !BUILT_IN.contains(&name.as_str()));
    names.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Returns the mistake of data that hides a tool or a function.
pub(super) fn conflict(view: &View, data: &Map<String, Value>) -> Option<String> {
    if data.is_empty() {
        return None;
    }
    let tools: BTreeSet<String> = view.tools().map(|tool| python_name(&tool.name)).collect();
    let name = data.keys().find(|name| BUILT_IN.contains(&name.as_str()) || tools.contains(*name))?;
    Some(format!("data argument \"{name}\" conflicts with a builtin or tool name; give it another name"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn results_are_read_as_toolhive_reads_them() {
        let texts = |texts: &[&str]| {
            let blocks = texts.iter().map(|text| json!({ "type": "text", "text": text }));
            json!({ "content": blocks.collect::<Vec<_>>() })
        };
        for (mut result, expected) in [
            (
                json!({ "structuredContent": { "id": 7.0, "x": [1.5, 2e300] } }),
                json!({ "id": 7, "x": [1.5, 2e300] }),
            ),
            (json!({ "structuredContent": { "result": [1] }, "content": [] }), json!([1])),
            (json!({ "structuredContent": { "results": 1 } }), json!({ "results": 1 })),
            (texts(&["17"]), json!(17)),
            (texts(&["plain", "more"]), json!("plain")),
            (texts(&["{\"a\": 1.0}"]), json!({ "a": 1 })),
            (json!({ "content": [{ "type": "image" }, { "type": "text", "text": "b" }] }), json!("b")),
            (json!({ "content": [] }), Value::Null),
        ] {
            assert_eq!(of_result(&mut result), expected);
        }
    }
}
