//! One tool for people: its parameters, an example call, its schema.

use serde_json::Value;
use vmcp_config::sanitize::shell_word;

use crate::cli::connection::Connection;
use crate::cli::connection::tool_report::{ReportedTool, ToolReport};
use crate::cli::console::brief::brief;
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::output::{self, OutputFormat};

/// Nearest names that are suggested for an unknown one.
const MAX_SUGGESTIONS: usize = 3;

/// Prints the tool of this name; the server's own name of it will do if only one backend has it.
pub(super) async fn show(
    connection: &Connection,
    name: &str,
    format: OutputFormat,
) -> Result<Exit, CommandFailure> {
    let ToolReport { tools } = connection.admin("admin/tools").await?;
    let tool = find(&tools, name).ok_or_else(|| unknown(&tools, name))?;
    output::print(format, tool, || human_text(tool))?;
    Ok(Exit::Done)
}

fn find<'a>(tools: &'a [ReportedTool], name: &str) -> Option<&'a ReportedTool> {
    tools.iter().find(|tool| tool.name == name).or_else(|| {
        let mut others = tools.iter().filter(|tool| tool.original == name);
        others.next().filter(|_| others.next().is_none())
    })
}

fn unknown(tools: &[ReportedTool], name: &str) -> CommandFailure {
    let mut ranked: Vec<_> =
        tools.iter().map(|tool| (strsim::jaro_winkler(name, &tool.name), tool.name.as_str())).collect();
    ranked.sort_by(|one, other| other.0.total_cmp(&one.0));
    let nearest: Vec<_> = ranked.into_iter().take(MAX_SUGGESTIONS).map(|(_, name)| name).collect();
    let remedy = if nearest.is_empty() {
        "`vmcp backends` says how the backends are doing".to_owned()
    } else {
        format!("the nearest are {}; `vmcp find \"…\"` searches", nearest.join(", "))
    };
    CommandFailure::new(format!("there is no tool {name}")).exit(Exit::NothingFound).remedy(remedy)
}

fn human_text(tool: &ReportedTool) -> String {
    let ReportedTool { name, backend, original, description, listed, definition, .. } = tool;
    let hidden = if *listed { "" } else { "; the configuration hides it from clients" };
    let schema = definition.get("inputSchema").unwrap_or(&Value::Null);
    let mut parts = vec![format!("{name}  ({original} of {backend}{hidden})"), description.trim().to_owned()];
    let rows: Vec<_> = properties(schema).map(|(key, value)| row(schema, key, value)).collect();
    if rows.is_empty() {
        parts.push("It takes no parameters.".to_owned());
    } else {
        parts.push(output::table(["PARAMETER", "TYPE", "", "DESCRIPTION"], rows));
    }
    parts.push(format!("Example\n  vmcp call {name}{}", example(schema)));
    parts.push(format!("Schema\n{}", serde_json::to_string_pretty(schema).unwrap_or_default()));
    parts.join("\n\n")
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten()
}

fn is_required(schema: &Value, key: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|required| required.iter().any(|name| name == key))
}

fn row(schema: &Value, key: &str, property: &Value) -> [String; 4] {
    let required = if is_required(schema, key) { "required" } else { "" };
    let description = property.get("description").and_then(Value::as_str).unwrap_or_default();
    [key.to_owned(), type_of(property), required.to_owned(), brief(description)]
}

fn type_of(property: &Value) -> String {
    match property.get("type") {
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("|"),
        _ if property.get("enum").is_some() => "enum".to_owned(),
        _ => "any".to_owned(),
    }
}

/// Returns a value for each required parameter, as `vmcp call` reads them.
fn example(schema: &Value) -> String {
    let required = properties(schema).filter(|(key, _)| is_required(schema, key));
    let pair = |(key, property): (&String, &Value)| {
        let text = match sample(property) {
            Value::String(text) => text,
            other => other.to_string(),
        };
        format!(" {}={}", shell_word(key), shell_word(&text))
    };
    required.map(pair).collect()
}

/// Returns a value that fits: the schema's own default, example or first choice, else one of its type.
fn sample(property: &Value) -> Value {
    let own = ["default", "const"].iter().find_map(|key| property.get(*key));
    let listed = || ["examples", "enum"].iter().find_map(|key| property.get(*key)?.as_array()?.first());
    if let Some(value) = own.or_else(listed).filter(|value| !value.is_null()) {
        return value.clone();
    }
    let first = type_of(property);
    match first.split('|').next().unwrap_or_default() {
        "integer" | "number" => property.get("minimum").cloned().unwrap_or_else(|| 1.into()),
        "boolean" => true.into(),
        "array" => vec![property.get("items").map_or_else(|| "text".into(), sample)].into(),
        "object" => {
            let required = properties(property).filter(|(key, _)| is_required(property, key));
            required
                .map(|(key, value)| (key.clone(), sample(value)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        }
        _ => match property.get("format").and_then(Value::as_str) {
            Some("uri" | "url") => "https://example.com".into(),
            Some("date") => "2026-01-31".into(),
            Some("date-time") => "2026-01-31T12:00:00Z".into(),
            _ => "text".into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str, schema: &Value) -> ReportedTool {
        let tool = json!({
            "name": name, "backend": "time", "original": "now", "title": null, "description": "The time.",
            "hash": "", "listed": true, "definition": { "inputSchema": schema },
        });
        serde_json::from_value(tool).unwrap()
    }

    #[test]
    fn a_tool_is_shown_with_a_call_that_can_be_copied() {
        let schema = json!({
            "properties": {
                "zone": { "type": "string", "description": "Name of the zone. IANA." },
                "mode": { "enum": ["a b", "c"] }, "n": { "type": "integer", "minimum": 5 },
                "where": { "type": "object", "required": ["x"], "properties": { "x": { "type": "boolean" } } },
                "more": { "type": ["array", "null"] },
            },
            "required": ["zone", "mode", "n", "where"],
        });
        let text = human_text(&tool("time_now", &schema));
        let call = "vmcp call time_now zone=text mode='a b' n=5 where='{\"x\":true}'\n";
        assert!(text.contains(call), "{text}");
        assert!(text.contains("array|null") && text.contains("Name of the zone.\n"), "{text}");
    }

    #[test]
    fn an_example_runs_nothing_in_a_shell() {
        let schema = json!({
            "properties": { "$(id)": { "type": "string" }, "x": { "default": "it's `id`" } },
            "required": ["$(id)", "x"],
        });
        assert_eq!(example(&schema), r" '$(id)'=text x='it'\''s `id`'");
    }

    #[test]
    fn a_name_that_is_nearly_right_gets_the_nearest() {
        let tools = [tool("time_now", &Value::Null), tool("files_read", &Value::Null)];
        assert!(find(&tools, "time_now").is_some());
        assert!(find(&tools, "now").is_none(), "two backends have it");
        assert!(find(&tools[..1], "now").is_some());
        assert!(unknown(&tools, "time_nwo").message().contains("time_nwo"));
    }
}
