//! Results of a composite tool as defined: typed properties with templates.

use std::collections::BTreeSet;

use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use super::steps::template;
use crate::mistakes::Mistakes;
use crate::raw::{RawOutput, RawOutputProperty, RawOutputType};
use crate::template::Template;

/// Most levels of nested properties.
const MAX_DEPTH: usize = 10;

/// The result of a composite tool.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) properties: Vec<Property>,
    pub(crate) required: Vec<String>,
}

/// One property of a result.
#[derive(Debug)]
pub(crate) struct Property {
    pub(crate) name: String,
    pub(crate) kind: RawOutputType,
    description: String,
    pub(crate) default: Option<Value>,
    pub(crate) form: PropertyForm,
}

/// Where the value of a property comes from.
#[derive(Debug)]
pub(crate) enum PropertyForm {
    Template(Template),
    Properties(Vec<Property>),
}

impl Output {
    /// Validates the result of a definition.
    pub(super) fn read(raw: &RawOutput, mistakes: &mut Mistakes) -> Output {
        if raw.properties.is_empty() {
            mistakes.add("output.properties", "missing", "add at least one property, or leave `output` out");
        }
        for (index, name) in raw.required.iter().enumerate() {
            if !raw.properties.contains_key(name) {
                let message = format!("there is no property `{name}`");
                mistakes.add(format!("output.required[{index}]"), message, "name one of `output.properties`");
            }
        }
        let properties = raw.properties.iter();
        let properties =
            properties.filter_map(|(name, raw)| property(name, raw, "output.properties", 0, mistakes));
        Output { properties: properties.collect(), required: raw.required.clone() }
    }

    /// Returns the steps whose results the templates read.
    pub(super) fn steps(&self) -> BTreeSet<String> {
        fn collect(properties: &[Property], into: &mut BTreeSet<String>) {
            for property in properties {
                match &property.form {
                    PropertyForm::Template(template) => into.extend(template.steps.iter().cloned()),
                    PropertyForm::Properties(nested) => collect(nested, into),
                }
            }
        }
        let mut steps = BTreeSet::new();
        collect(&self.properties, &mut steps);
        steps
    }

    /// Returns the JSON Schema of the result.
    pub(super) fn schema(&self) -> Value {
        let mut schema = Map::from_iter([
            ("type".to_owned(), json!("object")),
            ("properties".to_owned(), schemas(&self.properties)),
        ]);
        if !self.required.is_empty() {
            schema.insert("required".to_owned(), json!(self.required));
        }
        Value::Object(schema)
    }
}

fn schemas(properties: &[Property]) -> Value {
    let schema = |property: &Property| {
        let mut schema = Map::from_iter([("type".to_owned(), json!(property.kind))]);
        if !property.description.is_empty() {
            schema.insert("description".to_owned(), json!(property.description));
        }
        if let PropertyForm::Properties(nested) = &property.form {
            schema.insert("properties".to_owned(), schemas(nested));
        }
        (property.name.clone(), Value::Object(schema))
    };
    Value::Object(properties.iter().map(schema).collect())
}

fn property(
    name: &str,
    raw: &RawOutputProperty,
    parent: &str,
    depth: usize,
    mistakes: &mut Mistakes,
) -> Option<Property> {
    let path = format!("{parent}.{name}");
    if depth > MAX_DEPTH {
        mistakes.add(
            path,
            format!("nested deeper than {MAX_DEPTH} levels"),
            "write the object as one template",
        );
        return None;
    }
    let Some(kind) = raw.kind else {
        let remedy = "write string, integer, number, boolean, object or array";
        mistakes.add(format!("{path}.type"), "missing", remedy);
        return None;
    };
    let form = match (&raw.value, &raw.properties) {
        (Some(value), None) => PropertyForm::Template(template(value, &format!("{path}.value"), mistakes)?),
        (None, Some(nested)) if kind == RawOutputType::Object => {
            let parent = format!("{path}.properties");
            let mut properties = Vec::new();
            for (name, nested) in nested {
                match RawOutputProperty::deserialize(nested) {
                    Ok(nested) => properties.extend(property(name, &nested, &parent, depth + 1, mistakes)),
                    Err(error) => {
                        mistakes.add(
                            format!("{parent}.{name}"),
                            error.to_string(),
                            "write `type` and `value`",
                        );
                    }
                }
            }
            PropertyForm::Properties(properties)
        }
        (None, Some(_)) => {
            mistakes.add(
                format!("{path}.properties"),
                "only an object has properties",
                "write `type: object`",
            );
            return None;
        }
        (Some(_), Some(_)) => {
            mistakes.add(&path, "has `value` and `properties`", "keep one of them");
            return None;
        }
        (None, None) => {
            mistakes.add(&path, "has neither `value` nor `properties`", "add a template as `value`");
            return None;
        }
    };
    Some(Property {
        name: name.to_owned(),
        kind,
        description: raw.description.clone(),
        default: raw.default.clone(),
        form,
    })
}
