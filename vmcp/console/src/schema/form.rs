//! A form for the arguments of a tool, made from its schema.

use std::collections::HashSet;

use maud::{Markup, html};
use serde_json::Value;

use super::arguments::{ARGUMENT_PREFIX, MAX_FIELDS};
use super::choices::{Choice, entries, texts};
use super::effective::{effective, types};
use super::tree::{description, type_name};
use crate::text;

/// Most characters of a name; a longer one is written as JSON.
const MAX_CHARS: usize = 300;
/// Lines of a choice of several values.
const CHOICE_LINES: usize = 5;

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
            @let values = given.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect::<Vec<_>>();
            @let several = entries(schema, effective(schema, property));
            div.field {
                label for=(id) {
                    (text::line(name)) " " span.type { (text::line(&type_name(schema, property))) }
                    @if required.contains(name.as_str()) { " " strong { "required" } }
                }
                @if let Some(choices) = &several { (several_of(&id, name, choices, &values)) }
                @else { (input(&id, name, effective(schema, property), values.first().copied().unwrap_or_default())) }
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
                (options(&choices, &[value]))
            }
        } @else if is_plain {
            input id=(id) name=(field) value=(value) autocomplete="off";
        } @else {
            textarea id=(id) name=(field) rows="3" spellcheck="false" placeholder="JSON" { (value) }
        }
    }
}

/// Returns a choice of several entries of a list.
fn several_of(id: &str, name: &str, choices: &[Choice], values: &[&str]) -> Markup {
    html! {
        select id=(id) name={ (ARGUMENT_PREFIX) (name) } multiple size=(choices.len().min(CHOICE_LINES)) {
            (options(choices, values))
        }
        p.hint { "Several may be chosen, or none." }
    }
}

fn options(choices: &[Choice], chosen: &[&str]) -> Markup {
    html! {
        @for choice in choices {
            option value=(choice.value) selected[chosen.contains(&choice.value.as_str())] {
                (text::inert(&choice.title, text::MAX_LINE))
            }
        }
    }
}

/// Returns the values of a property that has a few of them.
fn choices(property: &Value) -> Option<Vec<Choice>> {
    if property.get("enum").is_none() && types(property) == ["boolean"] {
        let values = ["true", "false"].map(|word| Choice { value: word.to_owned(), title: word.to_owned() });
        return Some(values.to_vec());
    }
    texts(property)
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
    fn choices_show_their_names_and_lists_take_several() {
        let schema = json!({"properties": {
            "color": {"type": "string", "oneOf": [{"const": "#f00", "title": "<Red>"}, {"const": "#0f0"}]},
            "sizes": {"type": "array", "items": {"enum": ["s", "m"]}},
        }});
        let given = [("sizes".to_owned(), "m".to_owned()), ("color".to_owned(), "#0f0".to_owned())];
        let shown = fields(&schema, &given).into_string();
        assert!(shown.contains("<option value=\"#f00\">&lt;Red&gt;</option>"), "{shown}");
        assert!(shown.contains("<option value=\"#0f0\" selected>#0f0</option>"), "{shown}");
        assert!(shown.contains("name=\"argument.sizes\" multiple size=\"2\""), "{shown}");
        assert!(shown.contains("<option value=\"m\" selected>m</option>"), "{shown}");
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
