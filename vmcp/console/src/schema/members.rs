//! [`Members`]: the properties of an object, from all places where its schema may have them.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::choices::{Choice, texts};
use super::effective::{effective, is_null, reference};

/// Most schemas that are read for one object: its own, references, and parts.
const MAX_SCHEMAS: usize = 24;
/// Most properties, and most required names, that are read of each schema; further properties are counted.
const MAX_READ: usize = 1_000;
/// Most names of properties, and required names, that are read for one object. Further properties are
/// counted, further required names are left out: a small schema can lead to a long list hundreds of times.
const MAX_NAMES: usize = 5_000;
/// Most properties of one name in several alternatives that are compared.
const MAX_JOINS: usize = 50;

/// A property of an object.
#[derive(Debug, Clone)]
pub(super) struct Member<'a> {
    pub(super) name: &'a str,
    /// Its schema. Owned where several alternatives name one value each, as a discriminator has them: then it
    /// is a choice of their values.
    pub(super) schema: Cow<'a, Value>,
}

/// The properties of an object.
#[derive(Debug, Default)]
pub(super) struct Members<'a> {
    pub(super) list: Vec<Member<'a>>,
    /// Places in `list`, by name.
    places: HashMap<&'a str, usize>,
    required: HashSet<&'a str>,
    /// Properties that were not read.
    pub(super) more: usize,
    /// Names that were read.
    names: usize,
    /// Properties of one name that were compared.
    joins: usize,
}

/// Gathers the properties of an object: its own, those behind its reference, those of each part of `allOf`,
/// those of the alternatives of `oneOf` and `anyOf`, and those of conditions (`then`, `else`,
/// `dependentSchemas`). Of alternatives, a name is required if all of them demand it; of conditions, none is.
pub(super) fn members<'a>(root: &'a Value, schema: &'a Value) -> Members<'a> {
    let (mut members, mut left) = (Members::default(), MAX_SCHEMAS);
    members.read(root, schema, true, &mut left);
    members
}

/// Returns true if a schema describes objects alone: by its type, by its properties, or by its parts.
pub(super) fn is_object(root: &Value, schema: &Value) -> bool {
    let mut left = MAX_SCHEMAS;
    is_object_within(root, schema, &mut left)
}

fn is_object_within(root: &Value, schema: &Value, left: &mut usize) -> bool {
    let Some(rest) = left.checked_sub(1) else { return false };
    *left = rest;
    let schema = effective(root, schema);
    match schema.get("type") {
        Some(Value::String(name)) => return name == "object",
        Some(Value::Array(names)) => {
            let mut names = names.iter().filter(|name| *name != "null").peekable();
            return names.peek().is_some() && names.all(|name| name == "object");
        }
        _ => {}
    }
    if schema.get("properties").is_some_and(Value::is_object) {
        return true;
    }
    let mut parts = schema.get("allOf").and_then(Value::as_array).into_iter().flatten();
    if parts.any(|part| is_object_within(root, part, left)) {
        return true;
    }
    let alternatives = ["oneOf", "anyOf"].iter().find_map(|key| schema.get(*key)?.as_array());
    let mut alternatives = alternatives.into_iter().flatten().filter(|schema| !is_null(schema)).peekable();
    alternatives.peek().is_some() && alternatives.all(|schema| is_object_within(root, schema, left))
}

impl<'a> Members<'a> {
    /// Returns true without a property.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the schema of a property.
    pub(super) fn schema(&self, name: &str) -> Option<&Cow<'a, Value>> {
        self.list.get(*self.places.get(name)?).map(|member| &member.schema)
    }

    /// Returns true if the object must have a property.
    pub(super) fn is_required(&self, name: &str) -> bool {
        self.required.contains(name)
    }

    /// Reads a schema; `is_certain`: every object fits it.
    fn read(&mut self, root: &'a Value, schema: &'a Value, is_certain: bool, left: &mut usize) {
        let Some(rest) = left.checked_sub(1) else { return };
        *left = rest;
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            let read = self.grant(properties.len());
            self.more += properties.len() - read;
            for (name, property) in properties.iter().take(read) {
                self.add(root, name, property);
            }
        }
        if is_certain {
            let required = self.demanded(schema);
            self.required.extend(required);
        }
        if let Some(target) = reference(root, schema) {
            self.read(root, target, is_certain, left);
        }
        for part in schema.get("allOf").and_then(Value::as_array).into_iter().flatten().take(MAX_SCHEMAS) {
            self.read(root, part, is_certain, left);
        }
        for key in ["oneOf", "anyOf"] {
            let alternatives = schema.get(key).and_then(Value::as_array).into_iter().flatten();
            let alternatives: Vec<_> =
                alternatives.take(MAX_SCHEMAS).filter(|schema| !is_null(schema)).collect();
            let is_only = alternatives.len() == 1;
            if is_certain && !is_only {
                let demanded = self.demanded_by_all(root, &alternatives);
                self.required.extend(demanded);
            }
            for alternative in alternatives {
                self.read(root, alternative, is_certain && is_only, left);
            }
        }
        let dependent = schema.get("dependentSchemas").and_then(Value::as_object);
        let dependent = dependent.into_iter().flatten().map(|(_, schema)| schema).take(MAX_SCHEMAS);
        let conditions = ["then", "else"].into_iter().filter_map(|key| schema.get(key));
        for condition in conditions.chain(dependent) {
            self.read(root, condition, false, left);
        }
    }

    /// Returns the number of names that may be read of so many.
    fn grant(&mut self, wanted: usize) -> usize {
        let granted = wanted.min(MAX_READ).min(MAX_NAMES.saturating_sub(self.names));
        self.names += granted;
        granted
    }

    /// Returns the names that a schema demands by itself.
    fn demanded(&mut self, schema: &'a Value) -> HashSet<&'a str> {
        let required = schema.get("required").and_then(Value::as_array);
        let required = required.map(Vec::as_slice).unwrap_or_default();
        let read = self.grant(required.len());
        required.iter().take(read).filter_map(Value::as_str).collect()
    }

    /// Returns the names that each of several schemas demands.
    fn demanded_by_all(&mut self, root: &'a Value, schemas: &[&'a Value]) -> HashSet<&'a str> {
        let mut schemas = schemas.iter().copied();
        let Some(first) = schemas.next() else { return HashSet::new() };
        let mut common = self.demanded(effective(root, first));
        for schema in schemas {
            let demanded = self.demanded(effective(root, schema));
            common.retain(|name| demanded.contains(name));
        }
        common
    }

    fn add(&mut self, root: &'a Value, name: &'a str, property: &'a Value) {
        let known = match self.places.get(name) {
            Some(place) => self.list.get_mut(*place),
            None => None,
        };
        let Some(known) = known else {
            self.places.insert(name, self.list.len());
            self.list.push(Member { name, schema: Cow::Borrowed(property) });
            return;
        };
        let is_same = matches!(known.schema, Cow::Borrowed(known) if std::ptr::eq(known, property));
        if is_same || self.joins >= MAX_JOINS {
            return;
        }
        self.joins += 1;
        if let Some(joined) = joined(root, &known.schema, property) {
            known.schema = Cow::Owned(joined);
        }
    }
}

/// Returns a key that is equal for equal values. The text `1` is another value than the number.
fn choice_key(choice: &Choice) -> (&str, bool) {
    (&choice.value, choice.json.is_string())
}

/// Joins the choices of a property that two alternatives have; `None` if they add no value to the first, or
/// one of them holds other values.
fn joined(root: &Value, first: &Value, other: &Value) -> Option<Value> {
    let known = texts(effective(root, first))?;
    let added = texts(effective(root, other))?;
    let seen: HashSet<_> = known.iter().map(choice_key).collect();
    let added: Vec<_> = added.iter().filter(|choice| !seen.contains(&choice_key(choice))).collect();
    if added.is_empty() {
        return None;
    }
    let choices = || known.iter().chain(added.iter().copied());
    let values: Vec<_> = choices().map(|choice| &choice.json).collect();
    let names: Vec<_> = choices().map(|choice| choice.title.as_str()).collect();
    let description = first.get("description").or_else(|| other.get("description"));
    let mut schema = json!({ "enum": values, "enumNames": names });
    if let (Some(schema), Some(description)) = (schema.as_object_mut(), description) {
        schema.insert("description".to_owned(), description.clone());
    }
    Some(schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(members: &Members<'_>) -> Vec<String> {
        let of = |member: &Member<'_>| {
            format!("{}{}", member.name, if members.is_required(member.name) { "!" } else { "" })
        };
        let mut names: Vec<_> = members.list.iter().map(of).collect();
        names.sort();
        names
    }

    #[test]
    fn properties_are_found_behind_references_in_parts_and_in_alternatives() {
        let root = json!({"$defs": {
            "Base": {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}},
            "Loop": {"properties": {"a": {}}, "allOf": [{"$ref": "#/$defs/Loop"}]},
        }});
        for (schema, expected) in [
            (json!({"$ref": "#/$defs/Base"}), vec!["id!"]),
            (json!({"$ref": "#/$defs/Base", "properties": {"b": true}}), vec!["b", "id!"]),
            (
                json!({"allOf": [{"$ref": "#/$defs/Base"}, {"required": ["b"], "properties": {"b": {}}}]}),
                vec!["b!", "id!"],
            ),
            (
                json!({"oneOf": [
                    {"required": ["a"], "properties": {"a": {}}},
                    {"required": ["b"], "properties": {"b": {}}},
                ], "required": ["c"], "properties": {"c": {}}}),
                vec!["a", "b", "c!"],
            ),
            (json!({"anyOf": [{"$ref": "#/$defs/Base"}, {"type": "null"}]}), vec!["id!"]),
            (json!({"$ref": "#/$defs/Loop"}), vec!["a"]),
            (json!({"properties": {"__proto__": {}, "a.b": {}, "": {}}}), vec!["", "__proto__", "a.b"]),
            (json!(true), vec![]),
            (json!({"properties": [], "required": "a", "allOf": {}, "oneOf": 7}), vec![]),
        ] {
            assert_eq!(names(&members(&root, &schema)), expected, "{schema}");
        }
    }

    #[test]
    fn the_values_of_a_discriminator_are_one_choice() {
        let shape = |kind: &str, size: &str| {
            json!({"type": "object", "required": ["kind"], "properties": {
                "kind": {"const": kind, "description": "Its form"}, (size): {"type": "number"},
            }})
        };
        let root =
            json!({"oneOf": [shape("circle", "radius"), shape("square", "side"), shape("circle", "x")]});
        let members = members(&root, &root);
        assert_eq!(names(&members), ["kind!", "radius", "side", "x"]);
        let kind = members.schema("kind").unwrap();
        let values: Vec<_> = texts(kind).unwrap().into_iter().map(|choice| choice.value).collect();
        assert_eq!(values, ["circle", "square"]);
        assert_eq!(kind["description"], "Its form");
        assert_eq!(members.schema("radius").unwrap()["type"], "number");
        assert!(members.schema("gone").is_none());
    }

    #[test]
    fn objects_are_known_by_type_properties_and_parts() {
        let root =
            json!({"$defs": {"A": {"properties": {"a": {}}}, "L": {"allOf": [{"$ref": "#/$defs/L"}]}}});
        for (schema, expected) in [
            (json!({"type": "object"}), true),
            (json!({"type": ["object", "null"]}), true),
            (json!({"type": ["object", "string"]}), false),
            (json!({"type": ["null"]}), false),
            (json!({"properties": {}}), true),
            (json!({"oneOf": [{"$ref": "#/$defs/A"}, {"type": "object"}, {"type": "null"}]}), true),
            (json!({"oneOf": [{"$ref": "#/$defs/A"}, {"type": "string"}]}), false),
            (json!({"allOf": [{"$ref": "#/$defs/A"}, {"minProperties": 1}]}), true),
            (json!({"$ref": "#/$defs/L"}), false),
            (json!({}), false),
            (json!(false), false),
        ] {
            assert_eq!(is_object(&root, &schema), expected, "{schema}");
        }
    }

    #[test]
    fn properties_of_conditions_are_known_and_not_required() {
        let root = json!({
            "required": ["country"],
            "properties": {"country": {"enum": ["US", "CH"]}},
            "if": {"properties": {"country": {"const": "US"}, "read": {}}},
            "then": {"required": ["zip"], "properties": {"zip": {"type": "string"}}},
            "else": {"properties": {"canton": {"type": "string"}}},
            "dependentSchemas": {"card": {"required": ["owner"], "properties": {"owner": {"type": "string"}}}},
            "allOf": [{"if": {"required": ["zip"]}, "then": {"properties": {"street": {}}}}],
        });
        let expected = ["canton", "country!", "owner", "street", "zip"];
        assert_eq!(names(&members(&root, &root)), expected);
    }

    #[test]
    fn a_hostile_schema_is_read_within_bounds() {
        let part: serde_json::Map<_, _> = (0..3_000).map(|at| (format!("p{at}"), json!({}))).collect();
        let root =
            json!({"$defs": {"A": {"properties": part, "allOf": vec![json!({"$ref": "#/$defs/A"}); 500]}}});
        let schema = json!({"$ref": "#/$defs/A"});
        let members = members(&root, &schema);
        assert_eq!(members.list.len(), MAX_READ);
        assert!(members.more >= 2_000);
    }

    #[test]
    fn names_behind_many_references_are_read_within_a_bound() {
        let names: Vec<_> = (0..1_000).map(|at| format!("p{at}")).collect();
        let refer = |name: &str, times: usize| vec![json!({"$ref": format!("#/$defs/{name}")}); times];
        let root = json!({"$defs": {
            "Names": {"required": names},
            "Either": {"oneOf": refer("Names", MAX_SCHEMAS), "anyOf": refer("Names", MAX_SCHEMAS)},
        }});
        let schema = json!({"allOf": refer("Either", MAX_SCHEMAS), "properties": {"p7": {}}});
        let members = members(&root, &schema);
        assert_eq!(members.names, MAX_NAMES);
        assert!(!members.is_required("p0"), "the bound ends before all alternatives are read");
        assert_eq!(members.list.len(), 1);
    }
}
