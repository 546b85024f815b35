//! Typed Python stubs of tools, made from their JSON schemas: shorter than a schema, and a script writes its
//! call from them.

mod types;

use serde_json::Value;

use crate::names::{is_identifier, python_name};
use types::{Shapes, literal, python_type};

/// Longest comment of an argument or tool, in characters; a longer one is cut.
const MAX_COMMENT: usize = 160;

/// A tool, as its stub needs it.
#[derive(Debug, Clone, Copy)]
pub struct Tool<'a> {
    /// The server's name; `None`: the function has the name alone, as in scripts of ToolHive.
    pub server: Option<&'a str>,
    /// The tool's own name at the server; without a server, its listed name.
    pub name: &'a str,
    /// Its description, of which the first sentence is kept.
    pub description: &'a str,
    /// Its input schema.
    pub input: Option<&'a Value>,
    /// Its output schema.
    pub output: Option<&'a Value>,
    /// Observed shape of its results, in one line; written as a comment where the output schema is missing.
    pub observed: Option<&'a str>,
}

/// Returns the stub of a tool: a function with typed keywords, its result, and comments.
///
/// ```
/// use serde_json::json;
/// use vmcp_script::stubs::{Tool, stub};
///
/// let input = json!({ "type": "object", "required": ["title"], "properties": {
///     "labels": { "type": "array", "items": { "type": "string" } },
///     "title": { "type": "string", "description": "Title of the issue" },
/// }});
/// let tool = Tool {
///     server: Some("git-hub"), name: "create_issue", description: "Creates an issue. Slowly.",
///     input: Some(&input), output: None, observed: None,
/// };
/// assert_eq!(stub(&tool), "\
/// def git_hub.create_issue(*,
///     title: str,  # Title of the issue
///     labels: list[str] = ...,
/// ) -> Any: ...  # Creates an issue.");
/// ```
pub fn stub(tool: &Tool<'_>) -> String {
    let mut shapes = Shapes::default();
    let mut arguments = Vec::new();
    let mut odd = Vec::new();
    let root = tool.input.unwrap_or(&Value::Null);
    let properties = root.get("properties").and_then(Value::as_object);
    let required = |name: &str| {
        let required = root.get("required").and_then(Value::as_array);
        required.is_some_and(|names| names.iter().any(|it| it == name))
    };
    let mut sorted: Vec<_> = properties.into_iter().flatten().collect();
    sorted.sort_by_key(|(name, _)| !required(name));
    for (name, schema) in sorted {
        let value = python_type(schema, root, &mut shapes);
        let default = match (required(name), schema.get("default")) {
            (true, _) => String::new(),
            (false, Some(default)) => format!(" = {}", literal(default)),
            (false, None) => " = ...".to_owned(),
        };
        let comment = schema.get("description").and_then(Value::as_str).map(comment).unwrap_or_default();
        let comment = if comment.is_empty() { comment } else { format!("  # {comment}") };
        if is_identifier(name) {
            arguments.push(format!("    {name}: {value}{default},{comment}\n"));
        } else {
            odd.push(format!("    # by **{{{}: {value}}}{comment}\n", literal(&Value::from(name.as_str()))));
        }
    }
    let result =
        tool.output.map_or_else(|| "Any".to_owned(), |schema| python_type(schema, schema, &mut shapes));
    let keywords = match (arguments.is_empty(), odd.is_empty()) {
        (true, true) => String::new(),
        (true, false) => format!("\n{}", odd.concat()),
        (false, _) => format!("*,\n{}{}", arguments.concat(), odd.concat()),
    };
    let description = comment(first_sentence(tool.description));
    let description = if description.is_empty() { description } else { format!("  # {description}") };
    let server = tool.server.map(|server| format!("{}.", python_name(server))).unwrap_or_default();
    let name = python_name(tool.name);
    let observed = tool.observed.filter(|_| tool.output.is_none());
    let observed = observed.map(|line| format!("\n# {line}")).unwrap_or_default();
    format!("{}def {server}{name}({keywords}) -> {result}: ...{description}{observed}", shapes.text())
}

/// Returns a text as a comment: one line, cut at [`MAX_COMMENT`].
fn comment(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_COMMENT) {
        Some((cut, _)) => format!("{}…", line.get(..cut).unwrap_or_default()),
        None => line,
    }
}

fn first_sentence(text: &str) -> &str {
    let end = text.find(". ").map(|end| end + 1).into_iter().chain(text.find('\n')).min();
    end.and_then(|end| text.get(..end)).unwrap_or(text)
}

#[cfg(test)]
mod tests;
