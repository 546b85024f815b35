//! Choices: properties whose values are a few texts, numbers or booleans, alone or as entries of a list.

use serde_json::Value;

use super::effective::{effective, is_null, types};

/// Most values of a choice; more of them are typed.
const MAX_CHOICES: usize = 200;
/// Most characters of a value of a choice; a longer one is written as JSON.
const MAX_CHARS: usize = 300;

/// One value of a choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice {
    /// The value as a form sends it: a text itself, another value as JSON.
    pub(super) value: String,
    /// The value as an argument.
    pub(super) json: Value,
    /// Its name for people; the value itself where the schema has none.
    pub(super) title: String,
}

/// Returns the values of a property that is one of a few texts, numbers or booleans: `enum`, with names in
/// `enumNames`, or alternatives with a `const` and a `title` each.
pub(super) fn texts(property: &Value) -> Option<Vec<Choice>> {
    if let Some(values) = property.get("enum").and_then(Value::as_array) {
        let names =
            property.get("enumNames").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if values.len() > MAX_CHOICES {
            return None;
        }
        let of_text = values.iter().enumerate().filter(|(_, value)| !value.is_null());
        return of_text.map(|(at, value)| choice(value, names.get(at).and_then(Value::as_str))).collect();
    }
    let of_schema =
        |schema: &Value| choice(schema.get("const")?, schema.get("title").and_then(Value::as_str));
    if property.get("const").is_some() {
        return of_schema(property).map(|choice| vec![choice]);
    }
    let alternatives = ["oneOf", "anyOf"].iter().find_map(|key| property.get(*key)?.as_array())?;
    if alternatives.len() > MAX_CHOICES || alternatives.iter().all(is_null) {
        return None;
    }
    alternatives.iter().filter(|schema| !is_null(schema)).map(of_schema).collect()
}

/// Returns the values of which a list has some.
pub(super) fn entries(root: &Value, property: &Value) -> Option<Vec<Choice>> {
    let items = property.get("items").filter(|_| types(property) == ["array"])?;
    texts(effective(root, items))
}

fn choice(value: &Value, title: Option<&str>) -> Option<Choice> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    if text.chars().nth(MAX_CHARS).is_some() {
        return None;
    }
    let title = title.filter(|title| !title.is_empty()).unwrap_or(&text).to_owned();
    Some(Choice { value: text, json: value.clone(), title })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(choices: Option<Vec<Choice>>) -> Vec<(String, String)> {
        choices.unwrap_or_default().into_iter().map(|choice| (choice.value, choice.title)).collect()
    }

    #[test]
    fn choices_have_the_names_that_their_schema_gives_them() {
        let pair = |value: &str, title: &str| (value.to_owned(), title.to_owned());
        for (property, expected) in [
            (json!({"enum": ["a", "b", null]}), vec![pair("a", "a"), pair("b", "b")]),
            (json!({"enum": ["a", "b"], "enumNames": ["One"]}), vec![pair("a", "One"), pair("b", "b")]),
            (
                json!({"type": "string", "oneOf": [{"const": "#f00", "title": "Red"}, {"const": "#0f0"}]}),
                vec![pair("#f00", "Red"), pair("#0f0", "#0f0")],
            ),
            (json!({"const": "only"}), vec![pair("only", "only")]),
            (
                json!({"enum": [1, 2.5, true], "enumNames": ["One"]}),
                vec![pair("1", "One"), pair("2.5", "2.5"), pair("true", "true")],
            ),
            (json!({"type": "integer", "oneOf": [{"const": 3, "title": "Three"}]}), vec![pair("3", "Three")]),
            (json!({"enum": [1, {"a": 1}]}), vec![]),
            (json!({"enum": ["x".repeat(MAX_CHARS + 1)]}), vec![]),
            (json!({"enum": vec!["x"; MAX_CHOICES + 1]}), vec![]),
            (json!({"oneOf": [{"const": "a"}, {"type": "string"}]}), vec![]),
            (json!({"anyOf": [{"type": "null"}]}), vec![]),
        ] {
            assert_eq!(shown(texts(&property)), expected, "{property}");
        }
        let root = json!({"$defs": {"Kind": {"enum": ["x"]}}});
        let list = json!({"type": "array", "items": {"$ref": "#/$defs/Kind"}});
        assert_eq!(shown(entries(&root, &list)), [pair("x", "x")]);
        assert_eq!(entries(&root, &json!({"type": "array", "items": {"type": "string"}})), None);
        assert_eq!(entries(&root, &json!({"items": {"enum": ["x"]}})), None, "no list by its type");
    }
}
