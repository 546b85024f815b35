//! Shapes of the values of JSON Schema keywords, by draft 2020-12 and its predecessors.

use serde_json::Value;

/// Shape of a keyword's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A schema.
    Schema,
    /// A schema or, in earlier drafts, a list of schemas.
    SchemaOrList,
    /// A list of one schema or more.
    SchemaList,
    /// Schemas by a name that their author chose.
    SchemaMap,
    /// Schemas or lists of names, by name.
    DependencyMap,
    /// The name of a type, or a list of different ones.
    Types,
    /// A list of different texts.
    Names,
    /// A list of one value or more.
    Options,
    /// A number.
    Number,
    /// A number above 0.
    Positive,
    /// A whole number from 0.
    Count,
    /// A text that constrains values or names schemas.
    Text,
    /// A truth value that constrains values.
    Flag,
    /// A text that describes; a value of another shape can go.
    Note,
    /// A truth value that describes.
    NoteFlag,
    /// A list that describes.
    NoteList,
}

/// Names of types.
pub(super) const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// Returns the shape of a keyword's value; `None` for an unknown keyword, and for a keyword with any value.
pub(super) fn shape(keyword: &str) -> Option<Shape> {
    Some(match keyword {
        "additionalProperties"
        | "unevaluatedProperties"
        | "unevaluatedItems"
        | "additionalItems"
        | "contains"
        | "propertyNames"
        | "not"
        | "if"
        | "then"
        | "else"
        | "contentSchema" => Shape::Schema,
        "items" => Shape::SchemaOrList,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => Shape::SchemaList,
        "properties" | "patternProperties" | "dependentSchemas" | "$defs" | "definitions" => Shape::SchemaMap,
        "dependencies" => Shape::DependencyMap,
        "type" => Shape::Types,
        "required" => Shape::Names,
        "enum" => Shape::Options,
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => Shape::Number,
        "multipleOf" => Shape::Positive,
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties"
        | "minContains" | "maxContains" => Shape::Count,
        "$ref" | "$dynamicRef" | "$anchor" | "$dynamicAnchor" | "$id" | "pattern" => Shape::Text,
        "uniqueItems" => Shape::Flag,
        "title" | "description" | "$comment" | "format" | "contentMediaType" | "contentEncoding"
        | "$schema" => Shape::Note,
        "deprecated" | "readOnly" | "writeOnly" | "nullable" => Shape::NoteFlag,
        "examples" => Shape::NoteList,
        _ => return None,
    })
}

impl Shape {
    /// True if a value of this shape holds schemas.
    pub(super) fn holds_schemas(self) -> bool {
        matches!(
            self,
            Shape::Schema | Shape::SchemaOrList | Shape::SchemaList | Shape::SchemaMap | Shape::DependencyMap
        )
    }

    /// True if a value has this shape; the schemas inside it are not looked at.
    pub(super) fn fits(self, value: &Value) -> bool {
        match self {
            Shape::Schema => is_schema(value),
            Shape::SchemaOrList => is_schema(value) || value.as_array().is_some_and(|list| !list.is_empty()),
            Shape::SchemaList | Shape::Options => value.as_array().is_some_and(|list| !list.is_empty()),
            Shape::SchemaMap | Shape::DependencyMap => value.is_object(),
            Shape::Types => match value {
                Value::String(name) => TYPES.contains(&name.as_str()),
                Value::Array(names) => {
                    let are_known =
                        names.iter().all(|name| name.as_str().is_some_and(|name| TYPES.contains(&name)));
                    are_known && !names.is_empty() && are_different(names)
                }
                _ => false,
            },
            Shape::Names => value
                .as_array()
                .is_some_and(|names| names.iter().all(Value::is_string) && are_different(names)),
            Shape::Number => value.is_number(),
            Shape::Positive => value.as_f64().is_some_and(|number| number > 0.0),
            Shape::Count => value.as_f64().is_some_and(|number| number >= 0.0 && number.fract() == 0.0),
            Shape::Text | Shape::Note => value.is_string(),
            Shape::Flag | Shape::NoteFlag => value.is_boolean(),
            Shape::NoteList => value.is_array(),
        }
    }

    /// True if a value of another shape can go without a change of meaning: it says nothing (`null`, an empty
    /// container of a language that has one kind of them), or only describes.
    pub(super) fn can_go(self, value: &Value) -> bool {
        let says_nothing = match value {
            Value::Null => true,
            Value::Array(list) => list.is_empty(),
            Value::Object(map) => map.is_empty(),
            _ => false,
        };
        // Draft 3 had `required: true` at each property.
        let is_of_draft_3 = self == Shape::Names && value.is_boolean();
        says_nothing || is_of_draft_3 || matches!(self, Shape::Note | Shape::NoteFlag | Shape::NoteList)
    }
}

fn is_schema(value: &Value) -> bool {
    value.is_object() || value.is_boolean()
}

/// True if no value of a short list of texts is repeated; a long list is sorted first.
fn are_different(texts: &[Value]) -> bool {
    let mut texts: Vec<_> = texts.iter().filter_map(Value::as_str).collect();
    texts.sort_unstable();
    texts.windows(2).all(|pair| pair.first() != pair.last())
}
