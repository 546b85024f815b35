//! Arguments of a tool, read from the fields of its form.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::answer::required_defaults;
use super::choices::{entries, texts};
use super::effective::{effective, types};
use super::members::members;

/// Begin of the names of fields that hold arguments; the property's name follows.
pub(super) const ARGUMENT_PREFIX: &str = "argument.";
/// Begin of the names of fields that hold properties within an argument; a JSON pointer follows.
pub(super) const NESTED_PREFIX: &str = "nested.";
/// Most groups of fields within each other; a deeper object is written as JSON.
pub(super) const MAX_DEPTH: usize = 3;
/// Most fields of a form; a tool with more takes its arguments as JSON.
pub(super) const MAX_FIELDS: usize = 60;
/// Most values of a form; a list may have several.
const MAX_VALUES: usize = 1_000;
/// Field with all arguments as one JSON object; it adds to the other fields.
const ALL: &str = "arguments";

/// Reads the arguments from the pairs of a form. An empty field leaves its argument out; several values of
/// one field are a list. The error names the field and what it should hold.
pub fn arguments(schema: &Value, pairs: &[(String, String)]) -> Result<Map<String, Value>, String> {
    let (mut arguments, mut untouched) = (Map::new(), Vec::new());
    if let Some((_, text)) = pairs.iter().find(|(name, value)| name == ALL && !value.trim().is_empty()) {
        let Ok(Value::Object(all)) = serde_json::from_str(text) else {
            return Err("`arguments` must be a JSON object: write one such as {\"limit\": 5}".to_owned());
        };
        arguments = all;
        untouched = required_defaults(schema);
        untouched.retain(|(name, _)| arguments.contains_key(name));
    }
    let is_filled = |(_, value): &(&str, &String)| !value.is_empty();
    let properties = members(schema, schema);
    for (name, value) in named(pairs, ARGUMENT_PREFIX).filter(is_filled).take(MAX_VALUES) {
        // A default that stays in its field replaces no value that a person wrote as JSON.
        if untouched.iter().any(|(known, default)| known == name && default == value) {
            continue;
        }
        let property = properties.schema(name).map_or(&Value::Null, |property| &**property);
        add(schema, &mut arguments, name, property, value)?;
    }
    for (pointer, value) in named(pairs, NESTED_PREFIX).filter(is_filled).take(MAX_VALUES) {
        let Some((steps, property)) = nested_property(schema, pointer) else { continue };
        let Some((last, outer)) = steps.split_last() else { continue };
        let mut object = &mut arguments;
        for step in outer {
            let inner = object.entry(step.as_str()).or_insert_with(|| Value::Object(Map::new()));
            object = inner.as_object_mut().ok_or_else(|| {
                format!("`{step}` is no object in `arguments`: leave its fields empty, or the JSON")
            })?;
        }
        add(schema, object, last, &property, value)?;
    }
    Ok(arguments)
}

/// Returns the texts of a form's fields: of an argument by its name, of a property within one by its JSON
/// pointer.
pub fn given(pairs: &[(String, String)]) -> Vec<(String, String)> {
    let fields = named(pairs, ARGUMENT_PREFIX).chain(named(pairs, NESTED_PREFIX));
    fields.map(|(name, value)| (name.to_owned(), value.clone())).collect()
}

fn named<'a>(pairs: &'a [(String, String)], prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a String)> {
    pairs.iter().filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value)))
}

/// Returns the steps of a JSON pointer into the arguments, and the property there; `None` if the schema has
/// none.
fn nested_property<'a>(schema: &'a Value, pointer: &str) -> Option<(Vec<String>, Cow<'a, Value>)> {
    let steps = pointer.strip_prefix('/')?.split('/').take(MAX_DEPTH + 2);
    let steps: Vec<_> = steps.map(|step| step.replace("~1", "/").replace("~0", "~")).collect();
    if steps.len() > MAX_DEPTH + 1 {
        return None;
    }
    let mut property = Cow::Borrowed(schema);
    for step in &steps {
        // A choice that several alternatives make has no properties.
        let Cow::Borrowed(outer) = property else { return None };
        property = members(schema, outer).schema(step)?.clone();
    }
    Some((steps, property))
}

/// Returns a name as a step of a JSON pointer.
pub(super) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Adds one value of a form to an object.
fn add(
    schema: &Value,
    object: &mut Map<String, Value>,
    name: &str,
    property: &Value,
    value: &str,
) -> Result<(), String> {
    let property = effective(schema, property);
    let entry = entries(schema, property).into_iter().flatten().find(|choice| choice.value == value);
    if let Some(entry) = entry {
        let list = object.entry(name).or_insert_with(|| Value::Array(Vec::new()));
        if let Some(list) = list.as_array_mut() {
            list.push(entry.json);
            return Ok(());
        }
    }
    if is_rounded(property, value) {
        return Err(format!(
            "`{name}` is a number of more than 64 bits, which this form would round: call the tool by another client"
        ));
    }
    let value = read(property, value).ok_or_else(|| {
        format!("`{name}` must be JSON: write a number, true, a \"text\", a list or an object")
    })?;
    object.insert(name.to_owned(), value);
    Ok(())
}

/// Returns true for a whole number of a property that 64 bits cannot hold.
fn is_rounded(property: &Value, text: &str) -> bool {
    let text = text.trim();
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_kept = || text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok();
    is_whole && types(property).iter().any(|kind| matches!(*kind, "integer" | "number")) && !is_kept()
}

/// Reads one value by the types of its property. A text that is neither a number nor a boolean stays a text,
/// so that the server's own check names the mistake.
fn read(property: &Value, text: &str) -> Option<Value> {
    let choices = texts(property);
    let is_choice = choices.is_some();
    if let Some(choice) = choices.into_iter().flatten().find(|choice| choice.value == text) {
        return Some(choice.json);
    }
    let is_text_choice = || {
        let values = property.get("enum").and_then(Value::as_array);
        values.is_some_and(|values| values.iter().all(|value| value.is_string() || value.is_null()))
    };
    let is_plain = |kind: &&str| matches!(*kind, "string" | "number" | "integer" | "boolean");
    match types(property).as_slice() {
        ["string"] => Some(text.into()),
        _ if is_choice || is_text_choice() => Some(text.into()),
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
    fn choices_have_the_values_of_their_schema_and_alternatives_give_the_types() {
        let shape = |kind: &str, size: &str| {
            json!({"type": "object", "properties": {
                "kind": {"const": kind}, (size): {"type": "number"},
            }})
        };
        let schema = json!({
            "$defs": {"Circle": shape("circle", "radius"), "Square": shape("square", "side")},
            "allOf": [{"$ref": "#/$defs/Circle"}, {"properties": {
                "level": {"enum": [1, 2.5, "max", true]},
                "levels": {"type": "array", "items": {"enum": [1, 2]}},
                "shape": {"oneOf": [{"$ref": "#/$defs/Circle"}, {"$ref": "#/$defs/Square"}]},
            }}],
        });
        let pairs = [
            ("argument.radius", "3"),
            ("argument.kind", "circle"),
            ("argument.level", "2.5"),
            ("argument.levels", "1"),
            ("argument.levels", "2"),
            ("nested./shape/kind", "square"),
            ("nested./shape/side", "0.5"),
            ("nested./shape/kind/x", "no object"),
        ];
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let expected = json!({"radius": 3, "kind": "circle", "level": 2.5, "levels": [1, 2],
            "shape": {"kind": "square", "side": 0.5}});
        assert_eq!(Value::Object(arguments(&schema, &pairs).unwrap()), expected);
        let level = |text: &str| {
            let pairs = [("argument.level".to_owned(), text.to_owned())];
            arguments(&schema, &pairs).unwrap().remove("level").unwrap()
        };
        assert_eq!([level("max"), level("true"), level("1")], [json!("max"), json!(true), json!(1)]);
    }

    #[test]
    fn names_that_other_languages_reserve_are_names() {
        let names = ["__proto__", "constructor", "a.b", "a/b", "a~b", "argument.x", "é 🦀", "toString"];
        let text = json!({"type": "string"});
        let properties: Map<_, _> = names.iter().map(|name| ((*name).to_owned(), text.clone())).collect();
        let outer = json!({ "properties": properties });
        let within = json!({"properties": {"inner": {"type": "object", "properties": properties}}});
        let mut expected = Map::new();
        let (mut plain, mut nested) = (Vec::new(), Vec::new());
        for name in names {
            expected.insert(name.to_owned(), "v".into());
            plain.push((format!("{ARGUMENT_PREFIX}{name}"), "v".to_owned()));
            nested.push((format!("{NESTED_PREFIX}/inner/{}", escaped(name)), "v".to_owned()));
        }
        assert_eq!(arguments(&outer, &plain).unwrap(), expected);
        assert_eq!(Value::Object(arguments(&within, &nested).unwrap()), json!({ "inner": expected }));
    }

    #[test]
    fn fields_within_an_object_make_the_object() {
        let schema = json!({"$defs": {"Address": {"type": "object", "properties": {
            "city": {"type": "string"}, "a/b": {"type": "object", "properties": {
                "n~": {"type": "integer"}, "list": {"type": "array", "items": {"enum": ["x", "y"]}},
            }},
        }}}, "properties": {"home": {"$ref": "#/$defs/Address"}, "office": {"$ref": "#/$defs/Address"}}});
        let read = |pairs: &[(&str, &str)]| {
            let pairs: Vec<_> =
                pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            arguments(&schema, &pairs)
        };
        let read_all = read(&[
            ("nested./home/city", "Bern"),
            ("nested./home/a~1b/n~0", "7"),
            ("nested./home/a~1b/list", "x"),
            ("nested./home/a~1b/list", "y"),
            ("nested./office/city", ""),
            ("nested./gone/city", "x"),
            ("nested.city", "x"),
            ("arguments", "{\"home\": {\"zip\": \"3000\"}}"),
        ]);
        let expected = json!({"home": {"zip": "3000", "city": "Bern", "a/b": {"n~": 7, "list": ["x", "y"]}}});
        assert_eq!(Value::Object(read_all.unwrap()), expected);
        let refused = read(&[("nested./home/city", "Bern"), ("arguments", "{\"home\": 7}")]);
        assert!(refused.unwrap_err().starts_with("`home` is no object"));
        let deep = format!("nested.{}", "/a".repeat(50_000));
        assert_eq!(read(&[(deep.as_str(), "x")]), Ok(Map::new()), "an unknown place is left out");
        let pairs = [("nested./home/city", "a"), ("argument.b", "c"), ("form_token", "t")];
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let expected =
            [("b", "c"), ("/home/city", "a")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(given(&pairs), expected);
    }

    #[test]
    fn a_default_that_stays_in_its_field_replaces_no_value_of_the_json() {
        let schema =
            json!({"required": ["limit"], "properties": {"limit": {"type": "integer", "default": 10}}});
        let read = |limit: &str, all: &str| {
            let pairs = [("argument.limit", limit), ("arguments", all)];
            let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
            Value::Object(arguments(&schema, &pairs).unwrap())
        };
        assert_eq!(read("10", "{\"limit\": 5}"), json!({"limit": 5}));
        assert_eq!(read("20", "{\"limit\": 5}"), json!({"limit": 20}));
        assert_eq!(read("10", ""), json!({"limit": 10}));
    }

    #[test]
    fn whole_numbers_of_64_bits_are_kept_and_larger_ones_are_refused() {
        for text in ["9007199254740993", "18446744073709551615", "-9223372036854775808"] {
            let read = read_form(&[("argument.count", text)]).unwrap();
            assert_eq!(read["count"].to_string(), text);
        }
        for text in ["18446744073709551616", "-9223372036854775809"] {
            let refused = read_form(&[("argument.count", text)]).unwrap_err();
            assert!(refused.starts_with("`count` is a number of more than 64 bits"), "{refused}");
            assert_eq!(
                read_form(&[("argument.text", text)]).unwrap()["text"],
                text,
                "a text keeps its digits"
            );
        }
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
