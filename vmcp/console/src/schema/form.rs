//! A form for the arguments of a tool, made from its schema.

use std::collections::HashSet;

use maud::{Markup, html};
use serde_json::Value;

use super::arguments::{ARGUMENT_PREFIX, MAX_DEPTH, MAX_FIELDS, NESTED_PREFIX, escaped};
use super::choices::{Choice, entries, texts};
use super::effective::{effective, types};
use super::tree::{description, type_name};
use crate::text;

/// Most characters of a name; a longer one is written as JSON.
const MAX_CHARS: usize = 300;
/// Lines of a choice of several values.
const CHOICE_LINES: usize = 5;

/// Returns one field for each property of the schema, required ones first, with `given` texts as
/// [`given`](super::given) returns them. Properties of an object have fields of their own, in a group. An
/// empty field leaves its argument out.
pub fn fields(schema: &Value, given: &[(String, String)]) -> Markup {
    Form { root: schema, given, number: 0 }.level(schema, "", 0)
}

/// A form under construction.
struct Form<'a> {
    /// The whole schema, within which references are followed.
    root: &'a Value,
    given: &'a [(String, String)],
    /// Number of the next field.
    number: usize,
}

impl Form<'_> {
    /// Returns the fields of an object at `pointer`; empty for the arguments themselves.
    fn level(&mut self, schema: &Value, pointer: &str, depth: usize) -> Markup {
        let properties = schema.get("properties").and_then(Value::as_object);
        let is_short = |(name, _): &(&String, &Value)| name.chars().nth(MAX_CHARS).is_none();
        let mut shown: Vec<_> = properties.into_iter().flatten().filter(is_short).collect();
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        // A set: a server may list as many names as properties.
        let required: HashSet<&str> = required.filter_map(Value::as_str).collect();
        shown.sort_by_key(|(name, _)| !required.contains(name.as_str()));
        html! {
            @for (name, property) in shown.into_iter().take(MAX_FIELDS) {
                (self.field(name, property, required.contains(name.as_str()), pointer, depth))
            }
        }
    }

    /// Returns one field, or the group of an object's fields.
    fn field(
        &mut self,
        name: &str,
        property: &Value,
        is_required: bool,
        pointer: &str,
        depth: usize,
    ) -> Markup {
        if self.number >= MAX_FIELDS {
            return html! {};
        }
        let root = self.root;
        let own = format!("{pointer}/{}", escaped(name));
        let effective = effective(root, property);
        let label = html! {
            (text::line(name)) " " span.type { (text::line(&type_name(root, property))) }
            @if is_required { " " strong { "required" } }
        };
        let hint = html! {
            @if let Some(description) = description(root, property) {
                p.hint dir="auto" { (text::inert(description, text::MAX_LINE)) }
            }
        };
        let id = format!("argument-{}", self.number);
        // A group counts too: a schema may have nothing but groups.
        self.number += 1;
        if depth < MAX_DEPTH && is_group(effective) {
            let inner = self.level(effective, &own, depth + 1);
            return html! { fieldset { legend { (label) } (hint) (inner) } };
        }
        let (field, key) = if pointer.is_empty() {
            (format!("{ARGUMENT_PREFIX}{name}"), name)
        } else {
            (format!("{NESTED_PREFIX}{own}"), own.as_str())
        };
        let given = self.given.iter().filter(|(known, _)| known == key);
        let values: Vec<_> = given.map(|(_, value)| value.as_str()).collect();
        html! {
            div.field {
                label for=(id) { (label) }
                @if let Some(choices) = entries(root, effective) { (several_of(&id, &field, &choices, &values)) }
                @else { (input(&id, &field, effective, values.first().copied().unwrap_or_default())) }
                (hint)
            }
        }
    }
}

/// Returns true for an object that names its properties.
fn is_group(property: &Value) -> bool {
    let properties = property.get("properties").and_then(Value::as_object);
    types(property) == ["object"] && properties.is_some_and(|properties| !properties.is_empty())
}

fn input(id: &str, field: &str, property: &Value, value: &str) -> Markup {
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
fn several_of(id: &str, field: &str, choices: &[Choice], values: &[&str]) -> Markup {
    html! {
        select id=(id) name=(field) multiple size=(choices.len().min(CHOICE_LINES)) {
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
    fn an_object_with_properties_is_a_group_of_fields() {
        let schema = json!({"$defs": {"Address": {"type": "object", "required": ["city"], "properties": {
            "zip": {"type": "string"}, "city": {"type": "string"}, "a/b": {"type": "object", "properties": {
                "deep": {"type": "array", "items": {"enum": ["x"]}},
            }},
        }}}, "properties": {"home": {"$ref": "#/$defs/Address"}, "free": {"type": "object"}}});
        let given = [("/home/city".to_owned(), "Bern".to_owned())];
        let shown = fields(&schema, &given).into_string();
        assert_eq!(shown.matches("<fieldset>").count(), 2, "{shown}");
        assert!(shown.contains("name=\"nested./home/city\" value=\"Bern\""), "{shown}");
        assert!(shown.contains("name=\"nested./home/a~1b/deep\" multiple"), "{shown}");
        assert!(shown.contains("<textarea id=\"argument-5\" name=\"argument.free\""), "{shown}");
        let place = |name: &str| shown.find(name).unwrap();
        assert!(place("/home/city") < place("/home/zip"), "required ones come first: {shown}");
        let endless = json!({"$defs": {"A": {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}}},
            "properties": {"a": {"$ref": "#/$defs/A"}}});
        assert_eq!(fields(&endless, &[]).into_string().matches("<fieldset>").count(), MAX_DEPTH);
        let many: serde_json::Map<_, _> =
            (0..1000).map(|at| (format!("p{at}"), json!({"type": "string"}))).collect();
        let wide =
            json!({"properties": {"a": {"type": "object", "properties": many}, "b": {"type": "string"}}});
        assert_eq!(fields(&wide, &[]).into_string().matches("<input").count(), MAX_FIELDS - 1);
        let groups = |inner: Value| {
            let of: serde_json::Map<_, _> = (0..60).map(|at| (format!("g{at}"), inner.clone())).collect();
            json!({"type": "object", "properties": of})
        };
        let empty = json!({"type": "object", "properties": {("x".repeat(MAX_CHARS + 1)): {}}});
        let shown = fields(&groups(groups(groups(empty))), &[]).into_string();
        assert_eq!(shown.matches("<fieldset>").count(), MAX_FIELDS, "groups alone are bounded too");
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
