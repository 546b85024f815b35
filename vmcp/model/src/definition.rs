//! Definitions as backends send them: the raw JSON, byte for byte, and the few keys that vmcp reads.
//!
//! Names, URIs and input schemas are read strictly: a definition without them is rejected by itself, and the
//! rest of its backend stays. Decorations of tools, such as descriptions and annotations, are read as far as
//! they are readable; [`Fitness`] keeps out of lists what clients would refuse.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use vmcp_json::object::Object;
use vmcp_json::{nesting, text};
use vmcp_wire::headers::ParamHeader;
use vmcp_wire::letter_case::{DEFINITION, first_misspelled};

pub use vmcp_config::rules::Annotations;

use crate::fitness;
use crate::fitness::Fitness;
use crate::hash::{SchemaHash, canonical_json};
use crate::param_header;

/// Most bytes in the name of a tool or prompt; a definition with a longer one is rejected. The protocol
/// recommends at most 128 characters.
pub const MAX_NAME_BYTES: usize = 256;
/// Most bytes in the URI or URI template of a resource; a definition with a longer one is rejected.
pub const MAX_URI_BYTES: usize = 8 * 1024;
/// Most bytes of JSON in a definition; a larger one is rejected.
pub const MAX_DEFINITION_BYTES: usize = 256 * 1024;
/// Most levels of objects and arrays in a definition; a deeper one is rejected. Well below the limit of
/// serde_json, 128, so that a part of an accepted definition can always be parsed later.
pub const MAX_DEPTH: usize = 64;

/// Kind of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DefinitionKind {
    /// A tool.
    Tool,
    /// A resource with a fixed URI.
    Resource,
    /// A resource template.
    ResourceTemplate,
    /// A prompt.
    Prompt,
}

impl fmt::Display for DefinitionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DefinitionKind::Tool => "tool",
            DefinitionKind::Resource => "resource",
            DefinitionKind::ResourceTemplate => "resource template",
            DefinitionKind::Prompt => "prompt",
        })
    }
}

/// Reason why a definition is rejected. Texts quote at most a few words of the definition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DefinitionError {
    /// The definition is not a JSON object.
    #[error("the definition is not a JSON object")]
    NotAnObject,
    /// The definition has more than [`MAX_DEFINITION_BYTES`].
    #[error("the definition has {0} bytes; the limit is {MAX_DEFINITION_BYTES}")]
    TooLarge(usize),
    /// The definition nests deeper than [`MAX_DEPTH`].
    #[error("the definition nests {0} levels deep; the limit is {MAX_DEPTH}")]
    TooDeep(usize),
    /// A required key is missing or empty.
    #[error("{0} is missing or empty")]
    Missing(&'static str),
    /// A name or URI is too long.
    #[error("{key} has {length} bytes; the limit is {limit}")]
    TooLong {
        /// The key.
        key: &'static str,
        /// Its length in bytes.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// A schema is something else than a JSON object.
    #[error("{0} is not a JSON object")]
    SchemaNotAnObject(&'static str),
    /// An `x-mcp-header` annotation breaks the rules; clients would drop the tool.
    #[error("x-mcp-header: {0}")]
    ParamHeader(String),
    /// A key has the wrong type, occurs twice, or holds invalid JSON.
    #[error("{0}")]
    Malformed(String),
    /// A key differs in letter case only from a key of definitions: clients in Go and .NET would read another
    /// definition than vmcp, which names, judges and hashes it.
    #[error("the letter case of keys counts: `{written}` must be `{key}`")]
    LetterCase {
        /// The key as the backend wrote it.
        written: String,
        /// The key of definitions.
        key: &'static str,
    },
}

impl DefinitionError {
    fn malformed(error: &impl fmt::Display) -> DefinitionError {
        // An error quotes the offending key or value, which may be as long as the definition.
        DefinitionError::Malformed(error.to_string().chars().take(200).collect())
    }
}

/// Tool of a backend.
#[derive(Debug, Clone)]
pub struct Tool {
    /// The backend's name for it.
    pub name: String,
    /// Whole definition.
    pub raw: Box<RawValue>,
    /// Title for people, at the top level.
    pub title: Option<String>,
    /// Description, as sent.
    pub description: Option<String>,
    /// Schema of its arguments: a JSON object. `None` if the backend sent none.
    pub input_schema: Option<Box<RawValue>>,
    /// Schema of its structured result: a JSON object.
    pub output_schema: Option<Box<RawValue>>,
    /// Behavior hints.
    pub annotations: Annotations,
    /// Arguments that travel as HTTP headers too.
    pub param_headers: Vec<ParamHeader>,
    /// Hash of name, description and input schema; changes when one of them does.
    pub hash: SchemaHash,
    /// Characters of the input schema as JSON without spaces; a part of [`crate::tokens::size`].
    pub schema_characters: u32,
    /// Findings that keep the definition out of lists as it is; `None` for most.
    pub fitness: Option<Box<Fitness>>,
}

impl Tool {
    /// Parses a tool's definition.
    ///
    /// # Examples
    ///
    /// ```
    /// use serde_json::value::RawValue;
    /// use vmcp_model::definition::{DefinitionError, Tool};
    ///
    /// let parse = |json: &str| Tool::parse(RawValue::from_string(json.to_owned()).unwrap());
    /// let tool = parse(r#"{"name":"get_page","inputSchema":{"type":"object"},"x-vendor":1.50}"#)?;
    /// assert_eq!(tool.name, "get_page");
    /// assert!(tool.raw.get().contains("1.50"), "unknown keys stay byte for byte");
    ///
    /// assert_eq!(parse("{}").unwrap_err(), DefinitionError::Missing("name"));
    /// # Ok::<(), DefinitionError>(())
    /// ```
    pub fn parse(raw: Box<RawValue>) -> Result<Tool, DefinitionError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Keys<'a> {
            name: Option<String>,
            #[serde(borrow)]
            title: Option<&'a RawValue>,
            #[serde(borrow)]
            description: Option<&'a RawValue>,
            #[serde(borrow)]
            input_schema: Option<&'a RawValue>,
            #[serde(borrow)]
            output_schema: Option<&'a RawValue>,
            #[serde(borrow)]
            annotations: Option<&'a RawValue>,
        }
        let raw = readable(raw);
        let keys: Keys<'_> = read(&raw)?;
        let name = required("name", keys.name, MAX_NAME_BYTES)?;
        let schema = object("inputSchema", keys.input_schema)?;
        let parsed: Option<Value> = match &schema {
            None => None,
            Some(schema) => {
                Some(serde_json::from_str(schema.get()).map_err(|error| DefinitionError::malformed(&error))?)
            }
        };
        let canonical = parsed.as_ref().map(canonical_json).unwrap_or_default();
        let param_headers = match &parsed {
            None => Vec::new(),
            Some(schema) => param_header::find(schema).map_err(DefinitionError::ParamHeader)?,
        };
        let is_object = |schema: &&RawValue| text::is_object(schema.get());
        let output_schema = keys.output_schema.filter(is_object).map(ToOwned::to_owned);
        let [title, description] = [keys.title, keys.description].map(readable_text);
        let annotations = keys.annotations.map(annotations).unwrap_or_default();
        Ok(Tool {
            hash: SchemaHash::of(&name, description.as_deref().unwrap_or_default(), &canonical),
            schema_characters: u32::try_from(canonical.chars().count()).unwrap_or(u32::MAX),
            param_headers,
            fitness: Fitness::of(&raw, parsed, output_schema.as_deref()),
            output_schema,
            input_schema: schema,
            title,
            description,
            annotations,
            name,
            raw,
        })
    }
}

/// Resource of a backend, with a fixed URI.
#[derive(Debug, Clone)]
pub struct Resource {
    /// Its URI.
    pub uri: String,
    /// Its name.
    pub name: String,
    /// Whole definition.
    pub raw: Box<RawValue>,
}

impl Resource {
    /// Parses a resource's definition.
    pub fn parse(raw: Box<RawValue>) -> Result<Resource, DefinitionError> {
        #[derive(Deserialize)]
        struct Keys {
            uri: Option<String>,
            name: Option<String>,
        }
        let raw = without_odd_icons(readable(raw));
        let keys: Keys = read(&raw)?;
        let uri = required("uri", keys.uri, MAX_URI_BYTES)?;
        Ok(Resource { uri, name: keys.name.ok_or(DefinitionError::Missing("name"))?, raw })
    }
}

/// Family of resources whose URIs follow a template (RFC 6570).
#[derive(Debug, Clone)]
pub struct ResourceTemplate {
    /// Template of their URIs.
    pub uri_template: String,
    /// Its name.
    pub name: String,
    /// Whole definition.
    pub raw: Box<RawValue>,
}

impl ResourceTemplate {
    /// Parses a resource template's definition.
    pub fn parse(raw: Box<RawValue>) -> Result<ResourceTemplate, DefinitionError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Keys {
            uri_template: Option<String>,
            name: Option<String>,
        }
        let raw = without_odd_icons(readable(raw));
        let keys: Keys = read(&raw)?;
        let uri_template = required("uriTemplate", keys.uri_template, MAX_URI_BYTES)?;
        Ok(ResourceTemplate { uri_template, name: keys.name.ok_or(DefinitionError::Missing("name"))?, raw })
    }
}

/// Prompt of a backend.
#[derive(Debug, Clone)]
pub struct Prompt {
    /// The backend's name for it.
    pub name: String,
    /// Description, as sent.
    pub description: Option<String>,
    /// Whole definition.
    pub raw: Box<RawValue>,
}

impl Prompt {
    /// Parses a prompt's definition.
    pub fn parse(raw: Box<RawValue>) -> Result<Prompt, DefinitionError> {
        #[derive(Deserialize)]
        struct Keys {
            name: Option<String>,
            description: Option<String>,
        }
        let raw = without_odd_icons(readable(raw));
        let keys: Keys = read(&raw)?;
        Ok(Prompt { name: required("name", keys.name, MAX_NAME_BYTES)?, description: keys.description, raw })
    }
}

/// Replaces halves of surrogate pairs, which only clients in JavaScript can read. A name or URI that has one
/// stays as it is: the server knows it by no other.
fn readable(raw: Box<RawValue>) -> Box<RawValue> {
    let Some(mended) = text::without_half_surrogates(raw.get()) else { return raw };
    let object = Object::parse(&raw).unwrap_or_default();
    let is_cut = |key| object.text(key).is_some_and(|json| text::without_half_surrogates(json).is_some());
    if ["name", "uri", "uriTemplate"].into_iter().any(is_cut) {
        return raw;
    }
    RawValue::from_string(mended).unwrap_or(raw)
}

/// Leaves out icons that clients must not fetch or draw; [`Fitness`] leaves out those of tools.
fn without_odd_icons(raw: Box<RawValue>) -> Box<RawValue> {
    let without = |raw: &RawValue| {
        let object = Object::parse(raw).ok()?;
        if fitness::are_icons(object.text("icons")?) {
            return None;
        }
        let mut edit = object.edit();
        edit.remove("icons");
        edit.finish().into_raw().ok()
    };
    without(&raw).unwrap_or(raw)
}

/// Returns a text; `None` for another value.
fn readable_text(json: Option<&RawValue>) -> Option<String> {
    json.and_then(|json| text::unquoted(json.get())).map(Into::into)
}

/// Reads the hints that are true or false, also as text, and the title.
fn annotations(json: &RawValue) -> Annotations {
    let Ok(object) = Object::parse(json) else { return Annotations::default() };
    let hint = |key| match object.text(key)?.trim_matches('"') {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    };
    Annotations {
        title: object.get_str("title").map(Into::into),
        read_only_hint: hint("readOnlyHint"),
        destructive_hint: hint("destructiveHint"),
        idempotent_hint: hint("idempotentHint"),
        open_world_hint: hint("openWorldHint"),
    }
}

/// Checks the limits of all kinds of definitions, then reads the keys that `T` names.
fn read<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Result<T, DefinitionError> {
    let text = raw.get();
    // Without this check, serde would accept an array as a struct whose keys are in order.
    if !text.starts_with('{') {
        return Err(DefinitionError::NotAnObject);
    }
    if text.len() > MAX_DEFINITION_BYTES {
        return Err(DefinitionError::TooLarge(text.len()));
    }
    let depth = nesting::depth(text.as_bytes());
    if depth > MAX_DEPTH {
        return Err(DefinitionError::TooDeep(depth));
    }
    let keys = serde_json::from_str(text).map_err(|error| DefinitionError::malformed(&error))?;
    let object = Object::parse(raw).map_err(|error| DefinitionError::malformed(&error))?;
    match first_misspelled(object.keys(), &DEFINITION) {
        Some((written, key)) => Err(DefinitionError::LetterCase { written: written.to_owned(), key }),
        None => Ok(keys),
    }
}

fn required(key: &'static str, value: Option<String>, limit: usize) -> Result<String, DefinitionError> {
    match value.filter(|value| !value.is_empty()) {
        None => Err(DefinitionError::Missing(key)),
        Some(value) if value.len() > limit => {
            Err(DefinitionError::TooLong { key, length: value.len(), limit })
        }
        Some(value) => Ok(value),
    }
}

fn object(key: &'static str, value: Option<&RawValue>) -> Result<Option<Box<RawValue>>, DefinitionError> {
    match value {
        Some(value) if !value.get().starts_with('{') => Err(DefinitionError::SchemaNotAnObject(key)),
        value => Ok(value.map(ToOwned::to_owned)),
    }
}

#[cfg(test)]
mod tests;
