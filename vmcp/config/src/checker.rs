//! Check of the document against the JSON schema, which yields plain JSON that fits the raw types.
//! References are replaced; unknown keys, wrong types and numbers out of range are reported and left out, so
//! that validation can go on and find the rest.

mod hints;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::document::{Content, Node};
use crate::problems::nearest;
use crate::problems::{self, Report};
use crate::references::{self, ReferenceSources};
use crate::writing::checked_schema::definition;

/// Walks a document along the schema.
pub(crate) struct Checker<'a> {
    /// Text of the document.
    pub text: &'a str,
    pub sources: ReferenceSources<'a>,
    pub report: &'a mut Report,
}

/// Type of a value, as the schema names it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SchemaType {
    Map,
    List,
    Text,
    Integer,
    Number,
    Boolean,
}

impl SchemaType {
    const ALL: [SchemaType; 6] = [
        SchemaType::Map,
        SchemaType::List,
        SchemaType::Text,
        SchemaType::Integer,
        SchemaType::Number,
        SchemaType::Boolean,
    ];

    fn schema_name(self) -> &'static str {
        match self {
            SchemaType::Map => "object",
            SchemaType::List => "array",
            SchemaType::Text => "string",
            SchemaType::Integer => "integer",
            SchemaType::Number => "number",
            SchemaType::Boolean => "boolean",
        }
    }

    fn words(self) -> &'static str {
        match self {
            SchemaType::Map => "a map",
            SchemaType::List => "a list",
            SchemaType::Text => "a string",
            SchemaType::Integer => "a whole number",
            SchemaType::Number => "a number",
            SchemaType::Boolean => "true or false",
        }
    }

    fn remedy(self) -> &'static str {
        match self {
            SchemaType::Map => "write `key: value` lines below it",
            SchemaType::List => "write it as a list: `[a, b]`",
            SchemaType::Text => "put it in quotes",
            SchemaType::Integer | SchemaType::Number => "write a number without quotes",
            SchemaType::Boolean => "write `true` or `false`, without quotes",
        }
    }
}

impl<'a> Checker<'a> {
    /// Returns the value at `path` as far as it is right; `None` if nothing of it is.
    pub(crate) fn check(&mut self, node: Node, schema: &'a Value, path: &str) -> Option<Value> {
        self.report.lines.entry(path.to_owned()).or_insert(node.line);
        let schema = resolve(schema);
        if is_free(schema) {
            return self.free(node, path);
        }
        if let Some(choices) = choices(schema) {
            return self.check_choice(node, &choices, path);
        }
        let written = node.written(self.text);
        match node.content {
            Content::Null => self.wrong_type(schema, path, "nothing"),
            Content::Map(entries) => match accepting(schema, SchemaType::Map) {
                Some(schema) => Some(Value::Object(self.check_map(entries, schema, path))),
                None => self.wrong_type(schema, path, "a map"),
            },
            Content::List(items) => match accepting(schema, SchemaType::List) {
                Some(schema) => Some(Value::Array(self.check_list(items, schema, path))),
                None => self.wrong_type(schema, path, "a list"),
            },
            Content::Text(text) => {
                let (text, substituted) = self.substitute(text, path)?;
                self.check_text(text, substituted, schema, path)
            }
            // The program gets what the file says: `0x1F` and `True`, not 31 and `true`.
            Content::Scalar(value) if is_plain_word(&value, path) => {
                Some(Value::String(written.map_or_else(|| value.to_string(), str::to_owned)))
            }
            Content::Scalar(value) => self.check_scalar(value, schema, path),
        }
    }

    /// Returns JSON of any form, with its references replaced.
    fn free(&mut self, node: Node, path: &str) -> Option<Value> {
        Some(match node.content {
            Content::Null => Value::Null,
            Content::Scalar(value) => value,
            Content::Text(text) => Value::String(self.substitute(text, path)?.0),
            Content::List(items) => {
                let items = items.into_iter().enumerate();
                let mut free = |(index, item)| self.free(item, &problems::item(path, index));
                items.map(|item| free(item).unwrap_or_default()).collect()
            }
            Content::Map(entries) => {
                let mut map = Map::new();
                for (name, line, node) in entries {
                    let at = problems::key(path, &name);
                    self.report.lines.entry(at.clone()).or_insert(line);
                    if map.contains_key(&name) {
                        self.report.mistake(&at, "given twice".to_owned(), "keep one of them");
                    }
                    let value = self.free(node, &at).unwrap_or_default();
                    map.insert(name, value);
                }
                Value::Object(map)
            }
        })
    }

    /// Checks the items of a list. An empty item takes the place of a wrong one, so that the others keep
    /// their index in later messages.
    fn check_list(&mut self, items: Vec<Node>, schema: &'a Value, path: &str) -> Vec<Value> {
        let schema = schema.get("items").unwrap_or(&Value::Null);
        // Items are maps without a key that the schema requires, or strings.
        let empty = match accepting(resolve(schema), SchemaType::Map) {
            Some(_) => Value::Object(Map::new()),
            None => Value::String(String::new()),
        };
        let check = |(index, item)| self.check(item, schema, &problems::item(path, index));
        items.into_iter().enumerate().map(check).map(|item| item.unwrap_or_else(|| empty.clone())).collect()
    }

    fn check_map(
        &mut self,
        entries: Vec<(String, u32, Node)>,
        schema: &'a Value,
        path: &str,
    ) -> Map<String, Value> {
        let properties = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties").filter(|others| **others != Value::Bool(false));
        let mut checked = Map::new();
        let mut seen = BTreeMap::new();
        let mut unknown = Vec::new();
        for (name, line, node) in entries {
            let at = problems::key(path, &name);
            self.report.lines.entry(at.clone()).or_insert(line);
            if let Some(first) = seen.insert(name.clone(), line) {
                self.report.lines.insert(at.clone(), line);
                self.report.mistake(&at, format!("given twice; first in line {first}"), "keep one of them");
                continue;
            }
            match (properties.and_then(|properties| properties.get(&name)), others) {
                // `key:` without a value counts as absent, except in a map of the user's own keys.
                (Some(_), _) if matches!(node.content, Content::Null) => {}
                (Some(schema), _) | (None, Some(schema)) => {
                    if let Some(value) = self.check(node, schema, &at) {
                        checked.insert(name, value);
                    }
                }
                // Place of anchors, as in other tools' files.
                (None, None) if path.is_empty() && name.starts_with("x-") => {}
                (None, None) => unknown.push(name),
            }
        }
        // Suggest only keys that are not given: a given key cannot be the key that was meant.
        let known = properties.into_iter().flat_map(Map::keys).map(String::as_str);
        let missing: Vec<_> = known.clone().filter(|key| !seen.contains_key(*key)).collect();
        for name in unknown {
            self.unknown_key(&name, known.clone(), &missing, path);
        }
        checked
    }

    fn unknown_key<'k>(
        &mut self,
        name: &str,
        known: impl Iterator<Item = &'k str>,
        missing: &[&str],
        path: &str,
    ) {
        let at = problems::key(path, name);
        let meant = nearest::nearest(name, missing.iter().copied());
        let remedy = match (hints::for_key(&hints::general(&at)), meant) {
            (Some(hint), _) => hint.to_owned(),
            (None, Some(meant)) => format!("did you mean `{meant}`?"),
            (None, None) => format!("known keys here are {}", nearest::quoted_list(known)),
        };
        self.report.drop_value(&at, "unknown key", remedy);
        if let Some(meant) = meant {
            // The key that was meant is not missing but misspelled: no second problem about it.
            self.report.ignore(&problems::key(path, meant));
        }
    }

    fn check_choice(&mut self, node: Node, choices: &[&str], path: &str) -> Option<Value> {
        let found = match node.content {
            Content::Text(text) => self.substitute(text, path)?.0,
            Content::Scalar(value) => value.to_string(),
            Content::Null => return self.wrong_choice("nothing", "", choices, path),
            Content::List(_) => return self.wrong_choice("a list", "", choices, path),
            Content::Map(_) => return self.wrong_choice("a map", "", choices, path),
        };
        if let Some(choice) = choices.iter().find(|choice| is_same_word(choice, &found)) {
            return Some((*choice).into());
        }
        let shown = self.report.shown(path, &found);
        self.wrong_choice(&shown, &found, choices, path)
    }

    fn wrong_choice(&mut self, shown: &str, found: &str, choices: &[&str], path: &str) -> Option<Value> {
        let remedy = match hints::for_value(&hints::general(path), found) {
            Some(hint) => hint.to_owned(),
            None => nearest::suggest(found, choices.iter().copied(), "choose one of "),
        };
        let message =
            format!("must be one of {}, not {shown}", nearest::quoted_list(choices.iter().copied()));
        self.report.drop_value(path, message, remedy);
        None
    }

    fn check_text(
        &mut self,
        text: String,
        substituted: bool,
        schema: &'a Value,
        path: &str,
    ) -> Option<Value> {
        if accepting(schema, SchemaType::Text).is_some() {
            return Some(text.into());
        }
        // A value from the environment is always text: the schema decides if it is read as a number or a
        // boolean.
        if substituted
            && let Ok(value @ (Value::Bool(_) | Value::Number(_))) =
                serde_json::from_str::<Value>(text.trim())
        {
            return self.check_scalar(value, schema, path);
        }
        let shown = self.report.shown(path, &text);
        let found = if substituted { shown } else { format!("the string {shown}") };
        self.wrong_type(schema, path, &found)
    }

    fn check_scalar(&mut self, value: Value, schema: &'a Value, path: &str) -> Option<Value> {
        let types: &[SchemaType] = match &value {
            Value::Bool(_) => &[SchemaType::Boolean],
            Value::Number(number) if number.is_i64() || number.is_u64() => {
                &[SchemaType::Integer, SchemaType::Number]
            }
            _ => &[SchemaType::Number],
        };
        if !types.iter().any(|schema_type| accepting(schema, *schema_type).is_some()) {
            let what = if value.is_boolean() { "" } else { "the number " };
            return self.wrong_type(schema, path, &format!("{what}`{value}`"));
        }
        let bound = |name| schema.get(name).and_then(Value::as_f64);
        let (least, most) = (bound("minimum"), bound("maximum"));
        let Some(number) = value.as_f64() else { return Some(value) };
        if least.is_some_and(|least| number < least) || most.is_some_and(|most| number > most) {
            let range = match (least, most) {
                (Some(least), Some(most)) => format!("from {least} to {most}"),
                (Some(least), None) => format!("at least {least}"),
                (None, most) => format!("at most {}", most.unwrap_or_default()),
            };
            let default = schema.get("default").map(|default| format!("; the default is {default}"));
            let remedy = format!("choose a number {range}{}", default.unwrap_or_default());
            self.report.drop_value(path, format!("`{value}` is out of range"), remedy);
            return None;
        }
        Some(value)
    }

    fn substitute(&mut self, text: String, path: &str) -> Option<(String, bool)> {
        let mut secrets = Vec::new();
        // The variables of a program are its own business; anywhere else a line break at the end of a value
        // comes from `echo`, an editor or a Secret of Kubernetes, and is not meant.
        let sources = self.sources;
        let variables = |name: &str| (sources.variables)(name).map(without_line_break);
        let stored = |name: &str| (sources.secrets)(name).map(|value| value.map(without_line_break));
        let trimmed = ReferenceSources { variables: &variables, secrets: &stored, ..sources };
        let sources = if is_variable_of_program(path) { sources } else { trimmed };
        let substituted = references::substitute(&text, sources, &mut secrets);
        if !secrets.is_empty() {
            self.report.secrets.insert(path.to_owned(), secrets);
        }
        match substituted {
            Ok(None) => Some((text, false)),
            Ok(Some(value)) => {
                self.report.references.insert(path.to_owned(), text);
                Some((value, true))
            }
            Err(error) if error.is_absent_value() && problems::is_of_backend(path) => {
                // The backend is switched off; the text stays in place, so that the rest can be checked.
                self.report.absent_value(path, error.to_string(), error.remedy());
                self.report.references.insert(path.to_owned(), text.clone());
                Some((text, true))
            }
            Err(error) => {
                self.report.drop_value(path, error.to_string(), error.remedy());
                None
            }
        }
    }

    fn wrong_type(&mut self, schema: &Value, path: &str, found: &str) -> Option<Value> {
        let types: Vec<SchemaType> = SchemaType::ALL
            .into_iter()
            .filter(|schema_type| accepting(schema, *schema_type).is_some())
            .collect();
        let expected = types.iter().map(|schema_type| schema_type.words()).collect::<Vec<_>>().join(" or ");
        let remedy = types.first().map_or("remove it", |schema_type| schema_type.remedy());
        self.report.drop_value(path, format!("must be {expected}, not {found}"), remedy);
        None
    }
}

/// True if a schema takes JSON of any form.
fn is_free(schema: &Value) -> bool {
    const RULES: [&str; 8] = ["type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const", "properties"];
    match schema {
        Value::Bool(takes) => *takes,
        Value::Object(schema) => !RULES.iter().any(|rule| schema.contains_key(*rule)),
        _ => false,
    }
}

/// True if two words differ in capitals and `_` at most: `token_exchange` is `tokenExchange`.
fn is_same_word(choice: &str, found: &str) -> bool {
    let letters = |word: &str| word.replace('_', "").to_ascii_lowercase();
    choice.eq_ignore_ascii_case(found) || letters(choice) == letters(found)
}

/// Returns a value without the line breaks at its end.
fn without_line_break(mut value: String) -> String {
    value.truncate(value.trim_end_matches(['\r', '\n']).len());
    value
}

/// True for the path of a value in the `env` of a backend.
fn is_variable_of_program(path: &str) -> bool {
    problems::is_of_backend(path)
        && path
            .split_once("].")
            .is_some_and(|(_, field)| field.starts_with("env.") || field.starts_with("env["))
}

/// True for a whole number or a boolean among a program's words and variables, where there is nothing but
/// text. Other numbers are mistakes: `1.10` has lost its last digit.
fn is_plain_word(value: &Value, path: &str) -> bool {
    let is_word = || {
        let field = path.split_once("].").map_or("", |(_, field)| field);
        field.starts_with("env.") || field.starts_with("command[") || field.starts_with("args[")
    };
    (value.is_i64() || value.is_u64() || value.is_boolean()) && problems::is_of_backend(path) && is_word()
}

/// Follows `$ref`, which always points into `$defs`; a schema without one is returned unchanged.
fn resolve(schema: &Value) -> &Value {
    let reference = schema.get("$ref").and_then(Value::as_str);
    reference.and_then(|reference| definition(reference.strip_prefix("#/$defs/")?)).unwrap_or(schema)
}

/// Returns the schema, or the alternative of its `anyOf`, that takes values of this type.
fn accepting(schema: &Value, schema_type: SchemaType) -> Option<&Value> {
    let takes = |each: &Value| each.as_str() == Some(schema_type.schema_name());
    let takes_it = match schema.get("type") {
        Some(Value::Array(types)) => types.iter().any(takes),
        only => only.is_some_and(takes),
    };
    if takes_it {
        return Some(schema);
    }
    let alternatives = schema.get("anyOf").and_then(Value::as_array)?;
    alternatives.iter().find_map(|each| accepting(resolve(each), schema_type))
}

/// Returns the words that an enumeration allows; `None` for any other schema.
fn choices(schema: &Value) -> Option<Vec<&str>> {
    match (schema.get("enum"), schema.get("oneOf")) {
        (Some(Value::Array(words)), _) => words.iter().map(Value::as_str).collect(),
        (_, Some(Value::Array(variants))) => {
            variants.iter().map(|variant| variant.get("const").and_then(Value::as_str)).collect()
        }
        _ => None,
    }
}
