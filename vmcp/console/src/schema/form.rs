//! A form for the arguments of a tool, made from its schema.

use maud::{Markup, html};
use serde_json::Value;

use super::arguments::ARGUMENT_PREFIX;
use super::tree::{is_required, type_name};
use crate::text;

/// Most fields of a form; a tool with more takes its arguments as JSON.
pub(super) const MAX_FIELDS: usize = 60;
/// Most values of a choice.
const MAX_CHOICES: usize = 200;

/// Returns one field for each property of the schema, with `given` texts by the name of the property. An
/// empty field leaves its argument out.
pub fn fields(schema: &Value, given: &[(String, String)]) -> Markup {
    let properties = schema.get("properties").and_then(Value::as_object);
    html! {
        @for (number, (name, property)) in properties.into_iter().flatten().take(MAX_FIELDS).enumerate() {
            @let id = format!("argument-{number}");
            @let value = given.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.as_str());
            div.field {
                label for=(id) {
                    (text::line(name)) " " span.type { (text::line(&type_name(property))) }
                    @if is_required(schema, name) { " " strong { "required" } }
                }
                (input(&id, name, property, value))
                @if let Some(description) = property.get("description").and_then(Value::as_str) {
                    p.hint dir="auto" { (text::inert(description, text::MAX_LINE)) }
                }
            }
        }
    }
}

fn input(id: &str, name: &str, property: &Value, value: &str) -> Markup {
    let field = format!("{ARGUMENT_PREFIX}{name}");
    let choices: Option<Vec<String>> = match property.get("enum").and_then(Value::as_array) {
        Some(values) if values.iter().all(Value::is_string) => {
            Some(values.iter().filter_map(Value::as_str).take(MAX_CHOICES).map(str::to_owned).collect())
        }
        _ if property.get("type").is_some_and(|kind| kind == "boolean") => {
            Some(vec!["true".to_owned(), "false".to_owned()])
        }
        _ => None,
    };
    let is_plain = property
        .get("type")
        .and_then(Value::as_str)
        .is_some_and(|kind| matches!(kind, "string" | "number" | "integer"));
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
}
