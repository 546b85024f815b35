//! A form for the arguments of a tool, made from its schema.

use maud::{Markup, html};
use serde_json::Value;

use super::arguments::{ARGUMENT_PREFIX, MAX_DEPTH, MAX_FIELDS, NESTED_PREFIX, escaped};
use super::choices::{Choice, entries, texts};
use super::effective::{effective, types};
use super::example::{example, of_format};
use super::members::{Member, is_object, members};
use super::tree::{all_bounds, description, type_name};
use crate::text;

/// Most characters of a name; a longer one is written as JSON.
const MAX_CHARS: usize = 300;
/// Lines of a choice of several values.
const CHOICE_LINES: usize = 5;
/// Most lines of the field of a text; a longer text scrolls in it.
const MAX_LINES: usize = 12;
/// Bound of a text's length up to which its field has one line.
const MAX_LINE_LENGTH: u64 = 200;

/// Returns one field for each property of the schema, required ones first, with `given` texts as
/// [`given`](super::given) returns them. Properties of an object have fields of their own, in a group. An
/// empty field leaves its argument out.
pub fn fields(schema: &Value, given: &[(String, String)]) -> Markup {
    Form { root: schema, given, has_lines: false, number: 0 }.level(schema, "", 0)
}

/// As [`fields`], where a text may have several lines unless its schema bounds it.
pub fn argument_fields(schema: &Value, given: &[(String, String)]) -> Markup {
    Form { root: schema, given, has_lines: true, number: 0 }.level(schema, "", 0)
}

/// A form under construction.
struct Form<'a> {
    /// The whole schema, within which references are followed.
    root: &'a Value,
    given: &'a [(String, String)],
    /// True if a text may have several lines.
    has_lines: bool,
    /// Number of the next field.
    number: usize,
}

impl Form<'_> {
    /// Returns the fields of an object at `pointer`; empty for the arguments themselves.
    fn level(&mut self, schema: &Value, pointer: &str, depth: usize) -> Markup {
        let members = members(self.root, schema);
        let is_short = |member: &&Member<'_>| member.name.chars().nth(MAX_CHARS).is_none();
        let mut shown: Vec<_> = members.list.iter().filter(is_short).collect();
        shown.sort_by_key(|member| !members.is_required(member.name));
        html! {
            @for member in shown.into_iter().take(MAX_FIELDS) {
                (self.field(member, members.is_required(member.name), pointer, depth))
            }
        }
    }

    /// Returns one field, or the group of an object's fields.
    fn field(&mut self, member: &Member<'_>, is_required: bool, pointer: &str, depth: usize) -> Markup {
        if self.number >= MAX_FIELDS {
            return html! {};
        }
        let (root, name, property) = (self.root, member.name, &*member.schema);
        let own = format!("{pointer}/{}", escaped(name));
        let effective = effective(root, property);
        let label = html! {
            (text::line(name)) " " span.type { (text::line(&type_name(root, property))) }
            @if is_required { " " strong { "required" } }
        };
        // A choice shows its values itself.
        let bounds =
            all_bounds(root, property).into_iter().filter(|(key, _)| !matches!(*key, "enum" | "const"));
        let bounds: Vec<_> = bounds.collect();
        let hint = html! {
            @if let Some(description) = description(root, property) {
                p.hint dir="auto" { (text::inert(description, text::MAX_LINE)) }
            }
            @if !bounds.is_empty() {
                p.hint {
                    @for (bound, value) in &bounds { span.bound { (bound) ": " (text::line(value)) } " " }
                }
            }
        };
        let id = format!("argument-{}", self.number);
        // A group counts too: a schema may have nothing but groups.
        self.number += 1;
        if depth < MAX_DEPTH && is_group(root, property) {
            let inner = self.level(property, &own, depth + 1);
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
                @else {
                    @let value = values.first().copied().unwrap_or_default();
                    // Within an optional object, a value would make the object.
                    (self.input(&id, &field, effective, value, is_required && pointer.is_empty()))
                }
                (hint)
            }
        }
    }

    /// Returns the field of one value. The only value of a required one is chosen from the beginning.
    fn input(&self, id: &str, field: &str, property: &Value, value: &str, is_required: bool) -> Markup {
        if let Some(choices) = choices(property) {
            let chosen = match choices.as_slice() {
                [only] if is_required && value.is_empty() => only.value.as_str(),
                _ => value,
            };
            return html! {
                select id=(id) name=(field) {
                    option value="" { "(left out)" }
                    (options(&choices, &[chosen]))
                }
            };
        }
        let types = types(property);
        let is_number = |kind: &&str| matches!(*kind, "number" | "integer");
        let is_plain = |kind: &&str| is_number(kind) || matches!(*kind, "string" | "boolean");
        if types.is_empty() || !types.iter().all(is_plain) {
            let placeholder = example(self.root, property).unwrap_or_else(|| "JSON".to_owned());
            return text_area(id, field, 3, Some(&text::inert(&placeholder, text::MAX_LINE)), value);
        }
        // A field of one line would drop the line ends of its text.
        let has_lines = self.has_lines && may_have_lines(property) || value.contains('\n');
        if types == ["string"] && has_lines {
            return text_area(id, field, value.split('\n').count().min(MAX_LINES), None, value);
        }
        let mode = types.iter().all(is_number).then_some("decimal");
        html! {
            input id=(id) name=(field) value=(value) autocomplete="off" inputmode=[mode]
                placeholder=[of_format(property)];
        }
    }
}

/// Returns true for an object that names its properties.
fn is_group(root: &Value, property: &Value) -> bool {
    is_object(root, property) && !members(root, property).is_empty()
}

/// Returns a field of several lines. A browser drops the first line end within the element.
fn text_area(id: &str, field: &str, lines: usize, placeholder: Option<&str>, value: &str) -> Markup {
    html! {
        textarea id=(id) name=(field) rows=(lines) spellcheck="false" placeholder=[placeholder] {
            "\n" (value)
        }
    }
}

/// Returns true for a text that is not bound to one line.
fn may_have_lines(property: &Value) -> bool {
    let is_short =
        property.get("maxLength").and_then(Value::as_u64).is_some_and(|most| most <= MAX_LINE_LENGTH);
    !is_short && ["format", "pattern"].iter().all(|key| property.get(*key).is_none())
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
        let choice =
            |value: bool| Choice { value: value.to_string(), json: value.into(), title: value.to_string() };
        return Some([true, false].map(choice).to_vec());
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
    fn the_arguments_behind_references_and_alternatives_have_fields() {
        let shape = |kind: &str, size: &str| {
            json!({"type": "object", "required": ["kind"], "properties": {
                "kind": {"const": kind}, (size): {"type": "number", "multipleOf": 0.5, "default": 2},
            }})
        };
        let defs = json!({"Circle": shape("circle", "radius"), "Square": shape("square", "side")});
        let either = json!({"oneOf": [{"$ref": "#/$defs/Circle"}, {"$ref": "#/$defs/Square"}]});
        let whole = json!({"$defs": defs, "oneOf": either["oneOf"], "type": "object"});
        let within = json!({"$defs": defs, "type": "object", "properties": {"shape": either}});
        for (schema, prefix) in [(whole, "argument."), (within, "nested./shape/")] {
            let shown = fields(&schema, &[]).into_string();
            for name in ["radius", "side"] {
                assert!(shown.contains(&format!("name=\"{prefix}{name}\"")), "{name}: {shown}");
            }
            let (_, kind) = shown.split_once("<select id=\"argument-").unwrap();
            assert!(kind.contains(&format!("name=\"{prefix}kind\"")), "{shown}");
            assert!(shown.contains(">circle</option><option value=\"square\">square<"), "{shown}");
            assert!(shown.contains("multipleOf: <bdi>0.5</bdi>") && shown.contains("default: <bdi>2</bdi>"));
        }
        let referenced = json!({"$defs": defs, "$ref": "#/$defs/Circle"});
        assert!(fields(&referenced, &[]).into_string().contains("name=\"argument.radius\""));
    }

    #[test]
    fn a_text_keeps_its_lines_and_other_values_show_an_example() {
        let schema = json!({"properties": {
            "code": {"type": "string"}, "day": {"type": "string", "format": "date"},
            "short": {"type": "string", "maxLength": 20}, "count": {"type": "integer"},
            "rows": {"type": "array", "items": {"type": "object",
                "properties": {"<a>\u{202e}": {"type": "string"}}}},
        }});
        let shown = argument_fields(&schema, &[("code".to_owned(), "\nif a:\n  b".to_owned())]).into_string();
        assert!(shown.contains("rows=\"3\" spellcheck=\"false\">\n\nif a:\n  b</textarea>"), "{shown}");
        assert!(
            shown.contains("placeholder=\"2026-01-31\"") && shown.contains("inputmode=\"decimal\""),
            "{shown}"
        );
        assert!(shown.contains("[{&quot;&lt;a&gt;⟨U+202E⟩&quot;:&quot;text&quot;}]"), "{shown}");
        assert!(shown.contains("name=\"argument.short\" value=\"\""), "{shown}");
        let answer = fields(&schema, &[("code".to_owned(), "two\nlines".to_owned())]).into_string();
        assert!(answer.contains(">\ntwo\nlines</textarea>"), "{answer}");
        assert!(fields(&schema, &[]).into_string().contains("name=\"argument.code\" value=\"\""));
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
    fn the_only_value_of_a_required_argument_is_chosen() {
        let schema = json!({"required": ["kind", "within"], "properties": {
            "kind": {"const": "note"}, "other": {"const": "x"},
            "within": {"type": "object", "required": ["deep"], "properties": {"deep": {"const": "y"}}},
        }});
        let shown = fields(&schema, &[]).into_string();
        assert!(shown.contains("<option value=\"note\" selected>"), "{shown}");
        assert_eq!(shown.matches(" selected").count(), 1, "{shown}");
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
