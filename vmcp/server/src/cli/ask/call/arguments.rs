//! Parses `key=value` into JSON, typed by the input schema of the tool.

use serde_json::{Map, Value};

/// A key, and the text of its value.
pub(super) type Pair = (String, String);

/// Splits each pair at its first `=`.
pub(super) fn split(pairs: &[String]) -> Result<Vec<Pair>, String> {
    let split = |pair: &String| match pair.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("`{pair}` is not of the form key=value")),
    };
    pairs.iter().map(split).collect()
}

/// Sets the members of `object` that the pairs name, typed by `schema`; with a null schema, by the form of
/// the text. A key that the schema does not have as a whole may be a path: `filter.year=2026`.
pub(super) fn lay_over(
    object: &mut Map<String, Value>,
    pairs: &[Pair],
    schema: &Value,
) -> Result<(), String> {
    for (key, text) in pairs {
        set(object, key, text, schema).map_err(|reason| format!("`{key}={text}`: {reason}"))?;
    }
    Ok(())
}

fn set(object: &mut Map<String, Value>, key: &str, text: &str, schema: &Value) -> Result<(), String> {
    let property = |key: &str| schema.get("properties").and_then(|properties| properties.get(key));
    match key.split_once('.') {
        Some((head, rest)) if property(key).is_none() && !head.is_empty() && !rest.is_empty() => {
            let inner = object.entry(head).or_insert_with(|| Value::Object(Map::new()));
            let inner = inner.as_object_mut().ok_or_else(|| format!("`{head}` is no object"))?;
            set(inner, rest, text, property(head).unwrap_or(&Value::Null))
        }
        _ => {
            object.insert(key.to_owned(), typed(text, property(key).unwrap_or(&Value::Null))?);
            Ok(())
        }
    }
}

/// Returns a value of a type that the schema allows. Without a type, text that parses as JSON is JSON, and
/// all else is a string.
fn typed(text: &str, schema: &Value) -> Result<Value, String> {
    let types = types(schema);
    let parsed = serde_json::from_str::<Value>(text).ok();
    if types.is_empty() {
        return Ok(parsed.unwrap_or_else(|| text.into()));
    }
    let allowed = |value: &Value| types.iter().any(|name| is_of_type(value, name));
    match parsed {
        Some(value) if !value.is_string() && allowed(&value) => Ok(value),
        _ if types.contains(&"string") => Ok(text.into()),
        Some(value) if allowed(&value) => Ok(value),
        _ if types.contains(&"array") => {
            let items = schema.get("items").unwrap_or(&Value::Null);
            let items = text.split(',').filter(|item| !item.is_empty()).map(|item| typed(item.trim(), items));
            items.collect::<Result<Vec<_>, _>>().map(Value::Array)
        }
        _ => Err(format!("the tool's schema wants {}", types.join(" or "))),
    }
}

/// Returns the types that a schema names, those of its alternatives included.
fn types(schema: &Value) -> Vec<&str> {
    let own = match schema.get("type") {
        Some(Value::String(name)) => vec![name.as_str()],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let alternatives = ["anyOf", "oneOf"].iter().filter_map(|key| schema.get(key)?.as_array()).flatten();
    own.into_iter().chain(alternatives.flat_map(types)).collect()
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(pairs: &[&str], schema: &Value) -> Result<Value, String> {
        let pairs: Vec<_> = pairs.iter().map(|pair| (*pair).to_owned()).collect();
        let mut object = Map::new();
        lay_over(&mut object, &split(&pairs)?, schema)?;
        Ok(Value::Object(object))
    }

    #[test]
    fn values_have_the_types_of_the_schema() {
        let schema = json!({"properties": {
            "zone": {"type": "string"}, "count": {"type": "integer"}, "ratio": {"type": "number"}, "deep": {"type": "boolean"},
            "labels": {"type": "array", "items": {"type": "string"}}, "ids": {"type": "array", "items": {"type": "integer"}},
            "filter": {"type": "object"}, "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "either": {"type": ["string", "number"]},
        }});
        let pairs = [
            "zone=42",
            "count=42",
            "ratio=0.5",
            "deep=true",
            "labels=a, 7",
            "ids=[1,2]",
            r#"filter={"a":1}"#,
            "maybe=null",
            "either=x=y",
        ];
        let expected = json!({"zone": "42", "count": 42, "ratio": 0.5, "deep": true, "labels": ["a", "7"], "ids": [1, 2],
            "filter": {"a": 1}, "maybe": null, "either": "x=y"});
        assert_eq!(read(&pairs, &schema).unwrap(), expected);
        assert_eq!(read(&["either=3", "ids=4,5"], &schema).unwrap(), json!({"either": 3, "ids": [4, 5]}));
    }

    #[test]
    fn without_a_schema_looks_decide() {
        let expected = json!({"a": 1, "b": "1a", "c": [true], "d": "", "e": "x"});
        assert_eq!(read(&["a=1", "b=1a", "c=[true]", "d=", r#"e="x""#], &Value::Null).unwrap(), expected);
    }

    #[test]
    fn paths_reach_into_objects() {
        let schema = json!({"properties": {
            "filter": {"properties": {"year": {"type": "integer"}, "tag": {"type": "string"}}}, "a.b": {"type": "string"},
        }});
        let expected = json!({"filter": {"year": 2026, "tag": "7"}, "a.b": "1"});
        assert_eq!(read(&["filter.year=2026", "filter.tag=7", "a.b=1"], &schema).unwrap(), expected);
        assert!(
            read(&["filter=[]", "filter.year=1"], &Value::Null)
                .unwrap_err()
                .contains("`filter` is no object")
        );
    }

    #[test]
    fn mistakes_are_told() {
        let schema = json!({"properties": {"count": {"type": "integer"}}});
        assert_eq!(read(&["count"], &schema).unwrap_err(), "`count` is not of the form key=value");
        assert_eq!(
            read(&["count=many"], &schema).unwrap_err(),
            "`count=many`: the tool's schema wants integer"
        );
        assert!(read(&["count=1.5"], &schema).is_err());
        assert!(read(&["=1"], &schema).is_err());
    }

    #[test]
    fn pairs_win_over_the_object_they_are_laid_over() {
        let mut object = json!({"a": 1, "b": {"c": 2}}).as_object().unwrap().clone();
        let pairs = split(&["a=5".to_owned(), "b.d=3".to_owned()]).unwrap();
        lay_over(&mut object, &pairs, &Value::Null).unwrap();
        assert_eq!(Value::Object(object), json!({"a": 5, "b": {"c": 2, "d": 3}}));
    }
}
