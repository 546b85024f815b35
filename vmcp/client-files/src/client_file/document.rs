//! One editable document for all formats: concrete syntax trees for JSON and TOML, a value for YAML.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde_json::{Map, Value};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike};

use super::ClientFormat;

/// Refusal of a file in which something else stands where servers should be.
const SHAPE: &str = "the servers in it are no map";

/// A parsed file.
pub(crate) enum Document {
    Json(CstRootNode),
    Toml(DocumentMut),
    Yaml(Map<String, Value>),
    YamlList(Map<String, Value>),
}

impl Document {
    /// Parses a file; an empty one holds nothing.
    pub(crate) fn parse(text: &str, format: ClientFormat) -> Result<Document, String> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        match format {
            ClientFormat::Json => {
                let root = CstRootNode::parse(text, &ParseOptions::default())
                    .map_err(|error| format!("not readable as JSON: {error}"))?;
                root.object_value_or_create().ok_or("not a JSON object")?;
                Ok(Document::Json(root))
            }
            ClientFormat::Toml => text
                .parse()
                .map(Document::Toml)
                .map_err(|error: toml_edit::TomlError| format!("not readable as TOML: {}", error.message())),
            ClientFormat::Yaml | ClientFormat::YamlList => {
                if text.lines().any(|line| line.trim_start().starts_with('#') || line.contains(" #")) {
                    return Err("it has comments, which would be lost".to_owned());
                }
                let value = serde_saphyr::from_str(text).map_err(|_| "not readable as YAML".to_owned())?;
                let map = match value {
                    Value::Null => Map::new(),
                    Value::Object(map) => map,
                    _ => return Err("not a YAML map".to_owned()),
                };
                Ok(if format == ClientFormat::Yaml { Document::Yaml(map) } else { Document::YamlList(map) })
            }
        }
    }

    /// Returns the members of the map at `place`; none without a map.
    pub(crate) fn entries(&self, place: &[String]) -> Vec<(String, Value)> {
        let value = match self {
            // A file of Claude Code may hold megabytes of history: the map alone is converted.
            Document::Json(root) => {
                let map = json_at(root, place).and_then(|map| map.to_serde_value());
                return match map {
                    Some(Value::Object(map)) => map.into_iter().collect(),
                    _ => Vec::new(),
                };
            }
            Document::Toml(document) => toml::from_str::<toml::Table>(&document.to_string())
                .ok()
                .and_then(|table| serde_json::to_value(table).ok()),
            Document::Yaml(map) | Document::YamlList(map) => Some(Value::Object(map.clone())),
        };
        let map = place.iter().try_fold(value.unwrap_or_default(), |value, key| value.get(key).cloned());
        match map {
            Some(Value::Object(map)) => map.into_iter().collect(),
            Some(Value::Array(list)) if matches!(self, Document::YamlList(_)) => {
                list.into_iter().filter_map(|entry| Some((name_of(&entry)?.to_owned(), entry))).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Removes a member of the map at `place`, if there is one; in JSON, each member of this name.
    pub(crate) fn remove(&mut self, place: &[String], name: &str) {
        match self {
            Document::Json(root) => {
                let members = json_at(root, place).map(|map| map.properties()).unwrap_or_default();
                for member in members {
                    if member.decoded_name().is_some_and(|found| found == name) {
                        member.remove();
                    }
                }
            }
            Document::Toml(document) => {
                let root: &mut dyn TableLike = document.as_table_mut();
                let map = place.iter().try_fold(root, |map, key| map.get_mut(key)?.as_table_like_mut());
                map.and_then(|map| map.remove(name));
            }
            Document::Yaml(root) => {
                let map = place.iter().try_fold(root, |map, key| map.get_mut(key)?.as_object_mut());
                map.and_then(|map| map.shift_remove(name));
            }
            Document::YamlList(root) => {
                if let Some(list) = list_at(root, place) {
                    list.retain(|entry| name_of(entry) != Some(name));
                }
            }
        }
    }

    /// Sets a member of the map at `place`, which is made if it is absent.
    pub(crate) fn set(&mut self, place: &[String], name: &str, entry: &Value) -> Result<(), String> {
        match self {
            Document::Json(root) => {
                let map = place.iter().try_fold(root.object_value_or_create(), |map, key| {
                    Some(map.and_then(|map: CstObject| json_map_of(&map, key)))
                });
                let map = map.flatten().ok_or(SHAPE)?;
                match map.get(name) {
                    Some(member) => member.set_value(json(entry)),
                    None => drop(map.append(name, json(entry))),
                }
            }
            Document::Toml(document) => {
                let mut map: &mut dyn TableLike = document.as_table_mut();
                for key in place {
                    let made = || {
                        let mut table = Table::new();
                        // The header of a table that holds nothing but tables is left out.
                        table.set_implicit(true);
                        Item::Table(table)
                    };
                    map = map.entry(key).or_insert_with(made).as_table_like_mut().ok_or(SHAPE)?;
                }
                let item = match entry {
                    Value::Object(keys) => {
                        let mut table = Table::new();
                        for (key, value) in keys {
                            if let Some(value) = toml(value) {
                                table.insert(key, Item::Value(value));
                            }
                        }
                        Item::Table(table)
                    }
                    other => toml(other).map_or(Item::None, Item::Value),
                };
                map.insert(name, item);
            }
            Document::Yaml(root) => {
                let mut map = root;
                for key in place {
                    map = filled(map, key, || Value::Object(Map::new())).as_object_mut().ok_or(SHAPE)?;
                }
                map.insert(name.to_owned(), entry.clone());
            }
            Document::YamlList(root) => {
                let list = list_at(root, place).ok_or(SHAPE)?;
                match list.iter_mut().find(|known| name_of(known) == Some(name)) {
                    Some(known) => *known = entry.clone(),
                    None => list.push(entry.clone()),
                }
            }
        }
        Ok(())
    }

    /// Returns the text of the file.
    pub(crate) fn text(&self) -> Result<String, String> {
        match self {
            Document::Json(root) => Ok(root.to_string()),
            Document::Toml(document) => Ok(document.to_string()),
            Document::Yaml(map) | Document::YamlList(map) => {
                serde_saphyr::to_string(map).map_err(|error| error.to_string())
            }
        }
    }
}

/// Returns the map at `place`. Of members with one name the last one counts, as for clients.
fn json_at(root: &CstRootNode, place: &[String]) -> Option<CstObject> {
    let mut map = root.object_value()?;
    for key in place {
        let mut members = map.properties().into_iter().rev();
        let member = members.find(|member| member.decoded_name().is_some_and(|name| name == *key))?;
        map = member.object_value()?;
    }
    Some(map)
}

/// Returns the name that an entry of a list has in it.
fn name_of(entry: &Value) -> Option<&str> {
    entry.get("name").and_then(Value::as_str)
}

/// Returns the list at `place`, which is made if it is absent; `None` if something else stands there.
fn list_at<'a>(root: &'a mut Map<String, Value>, place: &[String]) -> Option<&'a mut Vec<Value>> {
    let (last, maps) = place.split_last()?;
    let mut map = root;
    for key in maps {
        map = filled(map, key, || Value::Object(Map::new())).as_object_mut()?;
    }
    filled(map, last, || Value::Array(Vec::new())).as_array_mut()
}

/// Returns the member `key`, which is made if it is absent or null, as behind `extensions:` without servers.
fn filled<'a>(map: &'a mut Map<String, Value>, key: &str, made: impl Fn() -> Value) -> &'a mut Value {
    let value = map.entry(key).or_insert_with(&made);
    if value.is_null() {
        *value = made();
    }
    value
}

/// Returns the map behind `key`, which is made if it is absent or null; `None` if another value stands there.
fn json_map_of(map: &CstObject, key: &str) -> Option<CstObject> {
    let value = map.get(key).and_then(|member| member.value());
    if value.is_some_and(|value| value.as_null_keyword().is_some()) {
        return Some(map.object_value_or_set(key));
    }
    map.object_value_or_create(key)
}

fn json(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(json).collect()),
        Value::Object(map) => {
            CstInputValue::Object(map.iter().map(|(key, value)| (key.clone(), json(value))).collect())
        }
    }
}

/// TOML has no null: it is left out.
fn toml(value: &Value) -> Option<toml_edit::Value> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(value) => (*value).into(),
        Value::Number(number) => match number.as_i64() {
            Some(number) => number.into(),
            None => number.as_f64()?.into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => items.iter().filter_map(toml).collect::<Array>().into(),
        Value::Object(map) => {
            let pairs = map.iter().filter_map(|(key, value)| Some((key.as_str(), toml(value)?)));
            pairs.collect::<InlineTable>().into()
        }
    })
}
