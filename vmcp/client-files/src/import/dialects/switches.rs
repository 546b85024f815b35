//! Lists beside the servers of a file that switch servers off: `disabledMcpjsonServers` of Claude Code, `mcp`
//! of Gemini.

use std::path::Path;

use serde_json::Value;

use super::FoundServer;

/// Keys of Claude Code with names of servers that are off.
const OFF: [&str; 2] = ["disabledMcpjsonServers", "disabledMcpServers"];

/// Returns true if a list of one of the client's files switches the server off. `folder` is that of the file
/// in which the server stands; Claude Code keeps the lists of a project apart, by its folder.
pub(in crate::import) fn is_off(files: &[Value], found: &FoundServer<'_>, folder: Option<&Path>) -> bool {
    let project = found.project.map(Path::new).or(folder);
    files.iter().any(|file| {
        let of_project = file
            .get("projects")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .filter(|(of, _)| project == Some(Path::new(of)))
            .any(|(_, lists)| OFF.iter().any(|key| names(lists.get(key), found.name)));
        let gemini = |list: &str| file.get("mcp").and_then(|mcp| mcp.get(list));
        let allowed = gemini("allowed").filter(|list| list.as_array().is_some_and(|list| !list.is_empty()));
        of_project
            || OFF.iter().any(|key| names(file.get(key), found.name))
            || names(gemini("excluded"), found.name)
            || (allowed.is_some() && !names(allowed, found.name))
    })
}

fn names(list: Option<&Value>, name: &str) -> bool {
    list.and_then(Value::as_array).is_some_and(|list| list.iter().any(|item| item == name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_of_claude_and_gemini_switch_servers_off() {
        let server = json!({});
        let found = |name, project| FoundServer { name, server: &server, project };
        let claude = json!({ "disabledMcpjsonServers": ["off"], "projects": { "/a": { "disabledMcpServers": ["b"] } } });
        let gemini = json!({ "mcp": { "excluded": ["x"], "allowed": ["x", "y"] } });
        for (file, name, project, folder, expected) in [
            (&claude, "off", None, None, true),
            (&claude, "on", None, None, false),
            (&claude, "b", None, None, false),
            (&claude, "b", Some("/a"), None, true),
            (&claude, "b", None, Some("/a"), true),
            (&gemini, "x", None, None, true),
            (&gemini, "y", None, None, false),
            (&gemini, "z", None, None, true),
        ] {
            let off = is_off(std::slice::from_ref(file), &found(name, project), folder.map(Path::new));
            assert_eq!(off, expected, "{name} {project:?} {folder:?}");
        }
    }
}
