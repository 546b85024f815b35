//! Applies a resolved name and an override to a definition, and leaves every other byte of it as it was.

use serde_json::value::RawValue;
use vmcp_config::rules::ToolOverride;
use vmcp_json::object::Object;

use crate::definition::{Annotations, Tool};
use crate::edit::{self, EditError};

/// Tool as it is listed.
pub(crate) struct ListedTool<'a> {
    pub raw: Box<RawValue>,
    pub description: &'a str,
    pub title: Option<&'a str>,
    pub annotations: Annotations,
}

/// Returns `tool` under `name`, with `change` applied. `mends` are changes that make it fit for lists; the
/// override comes after them.
pub(crate) fn apply<'a>(
    tool: &'a Tool,
    name: &str,
    change: &'a ToolOverride,
    mends: &[(&str, Option<String>)],
) -> Result<ListedTool<'a>, EditError> {
    // `name` already contains the overriding name, as far as the strategy kept it.
    let ToolOverride { name: _, description: new_description, annotations: new_hints } = change;
    let mut listed = ListedTool {
        raw: Box::default(),
        description: new_description.as_deref().or(tool.description.as_deref()).unwrap_or_default(),
        title: new_hints.title.as_deref().or(tool.title.as_deref()).or(tool.annotations.title.as_deref()),
        annotations: tool.annotations.clone(),
    };
    let mended = if mends.is_empty() { None } else { Some(edit::change(&tool.raw, mends)?) };
    let raw = mended.as_deref().unwrap_or(&tool.raw);
    let mut edits = Vec::new();
    if tool.name != name {
        edits.push(("name", serde_json::to_string(name)?));
    }
    if let Some(description) = new_description {
        edits.push(("description", serde_json::to_string(description)?));
    }
    if *new_hints != Annotations::default() {
        let hints = with_hints(raw, new_hints)?;
        listed.annotations = serde_json::from_str(hints.get())?;
        edits.push(("annotations", hints.get().to_owned()));
    }
    // Clients prefer the title at the top level: a new title must not hide behind the old one.
    if let (Some(title), Some(_)) = (&new_hints.title, &tool.title) {
        edits.push(("title", serde_json::to_string(title)?));
    }
    if tool.input_schema.is_none() {
        edits.push(("inputSchema", r#"{"type":"object"}"#.to_owned()));
    }
    listed.raw = if edits.is_empty() { raw.to_owned() } else { edit::set(raw, &edits)? };
    Ok(listed)
}

/// Returns the `annotations` of a definition with the given hints set in them.
fn with_hints(definition: &RawValue, hints: &Annotations) -> Result<Box<RawValue>, EditError> {
    let hints = serde_json::to_value(hints)?;
    let hints: Vec<_> = hints
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value.to_string()))
        .collect();
    match Object::parse(definition)?.get("annotations").filter(|before| before.get() != "null") {
        Some(before) => edit::set(before, &hints),
        None => edit::set(&RawValue::from_string("{}".to_owned())?, &hints),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(json: &str, name: &str, change: &ToolOverride) -> (String, Option<String>, Annotations) {
        let tool = Tool::parse(RawValue::from_string(json.to_owned()).unwrap()).unwrap();
        let listed = apply(&tool, name, change, &[]).unwrap();
        (listed.raw.get().to_owned(), listed.title.map(str::to_owned), listed.annotations)
    }

    #[test]
    fn annotations_alone() {
        let hints =
            Annotations { destructive_hint: Some(false), title: Some("T".into()), ..Annotations::default() };
        let change = ToolOverride { annotations: hints, ..ToolOverride::default() };
        let (raw, title, hints) = listed(
            r#"{"name":"a","inputSchema":{},"annotations":{ "x": 1.0, "destructiveHint": true,"readOnlyHint":true }}"#,
            "a",
            &change,
        );
        assert_eq!(
            raw,
            r#"{"name":"a","inputSchema":{},"annotations":{ "x": 1.0, "destructiveHint": false,"readOnlyHint":true,"title":"T" }}"#
        );
        assert_eq!(
            (title.as_deref(), hints.destructive_hint, hints.read_only_hint),
            (Some("T"), Some(false), Some(true))
        );

        let (raw, ..) =
            listed(r#"{"name":"a","title":"old","inputSchema":{},"annotations":null}"#, "a", &change);
        assert_eq!(
            raw,
            r#"{"name":"a","title":"T","inputSchema":{},"annotations":{"title":"T","destructiveHint":false}}"#
        );
    }

    #[test]
    fn name_and_description() {
        let change = ToolOverride { description: Some("New \"one\"".into()), ..ToolOverride::default() };
        let (raw, ..) = listed(r#"{"description": "old", "name":"a", "inputSchema" : {}}"#, "b", &change);
        assert_eq!(raw, r#"{"description": "New \"one\"", "name":"b", "inputSchema" : {}}"#);
        let (raw, ..) = listed(r#"{"name":"a","description":null}"#, "a", &ToolOverride::default());
        assert_eq!(raw, r#"{"name":"a","description":null,"inputSchema":{"type":"object"}}"#);
    }
}
