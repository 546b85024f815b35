//! A form for the arguments of a tool, made from its schema.

use std::collections::HashSet;

use maud::{Markup, html};
use serde_json::Value;

use super::arguments::{ARGUMENT_PREFIX, MAX_FIELDS};
use super::effective::{effective, types};
use super::tree::{description, type_name};
use crate::text;

/// Most values of a choice; more of them are typed.
const MAX_CHOICES: usize = 200;
/// Most characters of a name or a value of a choice; a longer one is written as JSON.
const MAX_CHARS: usize = 300;

/// Returns one field for each property of the schema, required ones first, with `given` texts by the name of
/// the property. An empty field leaves its argument out.
pub fn fields(schema: &Value, given: &[(String, String)]) -> Markup {
    let properties = schema.get("properties").and_then(Value::as_object);
    let is_short = |(name, _): &(&String, &Value)| name.chars().nth(MAX_CHARS).is_none();
    let mut shown: Vec<_> = properties.into_iter().flatten().filter(is_short).collect();
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    // A set: a server may list as many names as properties.
    let required: HashSet<&str> = required.filter_map(Value::as_str).collect();
    shown.sort_by_key(|(name, _)| !required.contains(name.as_str()));
    html! {
        @for (number, (name, property)) in shown.into_iter().take(MAX_FIELDS).enumerate() {
            @let id = format!("argument-{number}");
            @let value = given.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.as_str());
            div.field {
                label for=(id) {
                    (text::line(name)) " " span.type { (text::line(&type_name(schema, property))) }
                    @if required.contains(name.as_str()) { " " strong { "required" } }
                }
                (input(&id, name, effective(schema, property), value))
                @if let Some(description) = description(schema, property) {
                    p.hint dir="auto" { (text::inert(description, text::MAX_LINE)) }
                }
            }
        }
    }
}

fn input(id: &str, name: &str, property: &Value, value: &str) -> Markup {
    let field = format!("{ARGUMENT_PREFIX}{name}");
    let choices = choices(property);
    let types = types(property);
    let is_plain = !types.is_empty()
        && types.iter().all(|kind| matches!(*kind, "string" | "number" | "integer" | "boolean"));
    html! {
        @if let Some(choices) = choices {
            select id=(id) name=(field) {
                option value="" { "(left out)" }
                @for choice in &choices {
                    option value=(choice) selected[choice == value] { (text::inert(choice, text::MAX_LINE)) }
                }
            }
        } @else if is_plain {
            input id=(id) name=(field) value=(value) autocomplete="off";
        } @else {
            textarea id=(id) name=(field) rows="3" spellcheck="false" placeholder="JSON" { (value) }
        }
    }
}

/// Returns the values of a property that has a few of them.
fn choices(property: &Value) -> Option<Vec<String>> {
    let is_short = |text: &str| text.chars().nth(MAX_CHARS).is_none();
    match property.get("enum").and_then(Value::as_array) {
        Some(values) if values.len() <= MAX_CHOICES => values
            .iter()
            .filter(|value| !value.is_null())
            .map(|value| value.as_str().filter(|text| is_short(text)).map(str::to_owned))
            .collect(),
        None if types(property) == ["boolean"] => Some(vec!["true".to_owned(), "false".to_owned()]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_property_has_a_field_of_its_kind_with_a_label() {
        let schema = json!({"required": ["a"], "properties": {
            "a": {"type": "string", "description": "\"><script>"}, "b": {"type": "boolean"},
            "c": {"enum": ["x", "y"]}, "d": {"type": "object"},
        }});
        let shown =
            fields(&schema, &[("a".to_owned(), "\"typed\"".to_owned()), ("c".to_owned(), "y".to_owned())]);
        let shown = shown.into_string();
        assert!(shown.contains("name=\"argument.a\" value=\"&quot;typed&quot;\""), "{shown}");
        assert!(shown.contains("<option value=\"y\" selected>y</option>"), "{shown}");
        assert!(shown.contains("<textarea") && !shown.contains("<script>"), "{shown}");
        assert_eq!(shown.matches("<label for=").count(), 4);
    }

    #[test]
    fn optional_and_referenced_arguments_have_fields_of_their_type_and_required_ones_come_first() {
        let schema = json!({"required": ["last"], "$defs": {"Kind": {"enum": ["x", "y"]}}, "properties": {
            "text": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null},
            "kind": {"$ref": "#/$defs/Kind", "description": "Kind of it"},
            "flag": {"type": ["boolean", "null"]},
            "either": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
            "last": {"type": "integer"},
        }});
        let shown = fields(&schema, &[]).into_string();
        assert!(
            shown.contains("name=\"argument.text\" value=\"\"") && !shown.contains("<textarea"),
            "{shown}"
        );
        assert!(shown.contains("<option value=\"x\">x</option>") && shown.contains("Kind of it"), "{shown}");
        assert!(shown.contains("<option value=\"true\">") && shown.contains("string or integer"), "{shown}");
        let place = |name: &str| shown.find(&format!("argument.{name}\"")).unwrap();
        assert!(place("last") < place("text") && place("text") < place("kind"), "{shown}");
    }
}
