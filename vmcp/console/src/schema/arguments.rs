//! Arguments of a tool, read from the fields of its form.

use serde_json::{Map, Value};

use super::choices::{entries, texts};
use super::effective::{effective, types};

/// Begin of the names of fields that hold arguments; the property's name follows.
pub const ARGUMENT_PREFIX: &str = "argument.";
/// Most fields of a form; a tool with more takes its arguments as JSON.
pub(super) const MAX_FIELDS: usize = 60;
/// Most values of a form; a list may have several.
const MAX_VALUES: usize = 1_000;
/// Field with all arguments as one JSON object; it adds to the other fields.
const ALL: &str = "arguments";

/// Reads the arguments from the pairs of a form. An empty field leaves its argument out; several values of
/// one field are a list. The error names the field and what it should hold.
pub fn arguments(schema: &Value, pairs: &[(String, String)]) -> Result<Map<String, Value>, String> {
    let mut arguments = Map::new();
    if let Some((_, text)) = pairs.iter().find(|(name, value)| name == ALL && !value.trim().is_empty()) {
        let Ok(Value::Object(all)) = serde_json::from_str(text) else {
            return Err("`arguments` must be a JSON object: write one such as {\"limit\": 5}".to_owned());
        };
        arguments = all;
    }
    let named = pairs.iter().filter_map(|(name, value)| Some((name.strip_prefix(ARGUMENT_PREFIX)?, value)));
    for (name, value) in named.filter(|(_, value)| !value.is_empty()).take(MAX_VALUES) {
        let property = schema.get("properties").and_then(|properties| properties.get(name));
        let property = property.map_or(&Value::Null, |property| effective(schema, property));
        if entries(schema, property).is_some_and(|known| known.iter().any(|choice| choice.value == *value)) {
            let list = arguments.entry(name).or_insert_with(|| Value::Array(Vec::new()));
            if let Some(list) = list.as_array_mut() {
                list.push(value.as_str().into());
                continue;
            }
        }
        let value = read(property, value).ok_or_else(|| {
            format!("`{name}` must be JSON: write a number, true, a \"text\", a list or an object")
        })?;
        arguments.insert(name.to_owned(), value);
    }
    Ok(arguments)
}

/// Reads one value by the types of its property. A text that is neither a number nor a boolean stays a text,
/// so that the server's own check names the mistake.
fn read(property: &Value, text: &str) -> Option<Value> {
    let is_text_choice = || {
        let values = property.get("enum").and_then(Value::as_array);
        values.is_some_and(|values| values.iter().all(|value| value.is_string() || value.is_null()))
            || texts(property).is_some()
    };
    let is_plain = |kind: &&str| matches!(*kind, "string" | "number" | "integer" | "boolean");
    match types(property).as_slice() {
        ["string"] => Some(text.into()),
        _ if is_text_choice() => Some(text.into()),
        types @ [_, ..] if types.iter().all(is_plain) => {
            let read = serde_json::from_str(text.trim()).ok();
            let read = read.filter(|value: &Value| value.is_number() || value.is_boolean());
            Some(read.unwrap_or_else(|| text.into()))
        }
        _ => serde_json::from_str(text).ok(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_form(pairs: &[(&str, &str)]) -> Result<Map<String, Value>, String> {
        let schema = json!({"properties": {
            "text": {"type": "string"}, "count": {"type": "integer"}, "on": {"type": "boolean"},
            "kind": {"enum": ["1", "2"]}, "list": {"type": "array"},
            "several": {"type": "array", "items": {"enum": ["7", "[8]"]}}, "named": {"oneOf": [{"const": "9"}]},
            "color": {"oneOf": [{"const": "1", "title": "One"}, {"const": "2"}]},
            "optional": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "either": {"type": ["string", "integer", "null"]}, "referenced": {"$ref": "#/$defs/text"},
        }, "$defs": {"text": {"type": "string"}}});
        let pairs: Vec<_> =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        arguments(&schema, &pairs)
    }

    #[test]
    fn values_have_the_types_of_the_schema_and_empty_ones_are_left_out() {
        let read = read_form(&[
            ("argument.text", "12"),
            ("argument.count", " 12 "),
            ("argument.on", "false"),
            ("argument.kind", "1"),
            ("argument.list", "[1]"),
            ("argument.optional", "null"),
            ("argument.either", "7"),
            ("argument.referenced", "{}"),
            ("argument.other", ""),
            ("argument.several", "7"),
            ("argument.several", "[8]"),
            ("argument.named", "9"),
            ("argument.color", "2"),
            ("arguments", "{\"more\": null}"),
            ("form_token", "x"),
        ]);
        let expected = json!({"more": null, "text": "12", "count": 12, "on": false, "kind": "1", "list": [1],
                "optional": "null", "either": 7, "referenced": "{}", "several": ["7", "[8]"], "named": "9",
                "color": "2"});
        assert_eq!(Value::Object(read.unwrap()), expected);
    }

    #[test]
    fn mistakes_name_their_field() {
        assert!(read_form(&[("argument.list", "1,2")]).unwrap_err().starts_with("`list` must be JSON"));
        let typed = read_form(&[("argument.several", "[\"7\"]")]).unwrap();
        assert_eq!(typed["several"], json!(["7"]), "a list may be typed as JSON");
        assert!(
            read_form(&[("arguments", "[]")]).unwrap_err().starts_with("`arguments` must be a JSON object")
        );
    }
}
