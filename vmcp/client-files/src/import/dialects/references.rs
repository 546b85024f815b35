//! References to variables, files and folders as opencode, Gemini, Continue and VS Code write them, in the
//! syntax of the other clients.

use std::path::Path;

use serde_json::{Map, Value};

use super::Reading;
use vmcp_config::is_variable_name;

/// Returns true for a name behind `$` without braces that is surely a variable's: `pa$word123` is a password.
fn is_upper_case_name(name: &str) -> bool {
    is_variable_name(name) && !name.contains(|c: char| c.is_ascii_lowercase())
}

/// Folders of projects in which VS Code, Cursor and Roo have their files.
const PROJECT_FOLDERS: [&str; 3] = [".vscode", ".cursor", ".roo"];

/// Translates the references of a server.
pub(super) fn translate(keys: &mut Map<String, Value>, reading: Reading<'_>, notes: &mut Vec<String>) {
    if matches!(keys.get("type").and_then(Value::as_str), Some("local" | "remote")) {
        opencode(keys, reading);
    }
    if reading.is_gemini {
        gemini(keys, notes);
    }
    continue_dev(keys);
    if let Some(project) = project_of(reading) {
        let project = project.display().to_string();
        for value in keys.values_mut() {
            change_texts(value, &|text| text.replace("${workspaceFolder}", &project));
        }
    }
}

/// Returns the folder of the project that has the file to itself; `None` for a file of the user, whose
/// projects change.
fn project_of(reading: Reading<'_>) -> Option<&Path> {
    let folder = reading.folder?;
    let name = folder.file_name()?.to_str()?;
    let project = folder.parent().filter(|project| reading.home != Some(*project))?;
    PROJECT_FOLDERS.contains(&name).then_some(project)
}

/// Translates a server of opencode: `{env:NAME}` and `{file:path}` in its texts, its types, and its time
/// limit, which is the one of the start.
fn opencode(keys: &mut Map<String, Value>, reading: Reading<'_>) {
    for value in keys.values_mut() {
        change_texts(value, &|text| with_references(text, reading));
    }
    let kind = keys.remove("type");
    // Copilot CLI has the type `local` too, with `command` as one word.
    let is_opencode =
        kind.is_some_and(|kind| kind == "remote") || keys.get("command").is_some_and(Value::is_array);
    if let Some(timeout) = keys.remove("timeout") {
        keys.insert(if is_opencode { "startup_timeout_ms" } else { "timeout" }.to_owned(), timeout);
    }
}

/// Translates a server of Gemini: `$NAME` in its texts, and `url`, which means the older transport there.
fn gemini(keys: &mut Map<String, Value>, notes: &mut Vec<String>) {
    for value in keys.values_mut() {
        change_texts(value, &|text| with_braces(text));
    }
    let has = |key: &str| keys.contains_key(key);
    if has("httpUrl") || has("type") || has("transport") {
        return;
    }
    let Some(url) = keys.get("url").and_then(Value::as_str) else { return };
    if url.trim_end_matches('/').ends_with("/mcp") {
        notes.push(
            "Gemini may speak SSE at `url`: if the server does not answer, add `transport: sse`".to_owned(),
        );
    } else {
        notes.push(
            "Gemini speaks SSE at `url`: remove `transport` if the server has streamable HTTP".to_owned(),
        );
        keys.insert("type".to_owned(), "sse".into());
    }
}

/// Translates a server of Continue: `${{ secrets.NAME }}` in its texts, `requestOptions.headers`, and
/// `apiKey`, which is sent as a bearer token.
fn continue_dev(keys: &mut Map<String, Value>) {
    for value in keys.values_mut() {
        change_texts(value, &|text| with_secrets(text));
    }
    let Some(Value::String(_)) = keys.get("url") else { return };
    let mut headers = Map::new();
    if let Some(Value::Object(mut options)) = keys.remove("requestOptions") {
        if let Some(Value::Object(sent)) = options.remove("headers") {
            headers.extend(sent);
        }
        // The others are named as not taken over.
        keys.extend(options.into_iter().map(|(name, value)| (format!("requestOptions.{name}"), value)));
    }
    if let Some(Value::String(key)) = keys.remove("apiKey") {
        headers.insert("Authorization".to_owned(), format!("Bearer {key}").into());
    }
    if !headers.is_empty()
        && let Value::Object(known) = keys.entry("headers").or_insert_with(|| Map::new().into())
    {
        known.extend(headers);
    }
}

/// Changes all texts of a value, in depth; keys stay.
fn change_texts(value: &mut Value, change: &dyn Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = change(text),
        Value::Array(items) => items.iter_mut().for_each(|item| change_texts(item, change)),
        Value::Object(map) => map.values_mut().for_each(|item| change_texts(item, change)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// `{env:NAME}` → `${env:NAME}`, `{file:~/x}` → `${file:/home/me/x}`.
fn with_references(text: &str, reading: Reading<'_>) -> String {
    let text = text.replace("{env:", "${env:");
    if !reading.is_opencode {
        return text;
    }
    let mut parts = text.split("{file:");
    let mut translated = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let path = part.split_once('}').and_then(|(path, rest)| Some((absolute(path, reading)?, rest)));
        match path {
            Some((path, rest)) => translated.extend(["${file:", &path, "}", rest]),
            None => translated.extend(["{file:", part]),
        }
    }
    translated
}

/// Returns the whole path of a file; `None` for a relative one if its base is unknown.
fn absolute(path: &str, reading: Reading<'_>) -> Option<String> {
    let path = match path.strip_prefix("~/") {
        Some(rest) => reading.home?.join(rest),
        None if Path::new(path).is_absolute() => path.into(),
        None => reading.folder?.join(path.trim_start_matches("./")),
    };
    Some(path.display().to_string())
}

/// `$NAME` → `${env:NAME}`. `${NAME}` and `$name` stay.
fn with_braces(text: &str) -> String {
    let mut parts = text.split('$');
    let mut translated = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(part.len());
        let (name, rest) = part.split_at(end);
        if is_upper_case_name(name) {
            translated.extend(["${env:", name, "}", rest]);
        } else {
            translated.extend(["$", part]);
        }
    }
    translated
}

/// `${{ secrets.NAME }}` → `${env:NAME}`.
fn with_secrets(text: &str) -> String {
    let mut parts = text.split("${{");
    let mut translated = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let reference = part.split_once("}}").and_then(|(inner, rest)| {
            let name = inner.trim().strip_prefix("secrets.").filter(|name| is_variable_name(name))?;
            Some((name, rest))
        });
        match reference {
            Some((name, rest)) => translated.extend(["${env:", name, "}", rest]),
            None => translated.extend(["${{", part]),
        }
    }
    translated
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn files_of_opencode_get_their_whole_path() {
        let reading = Reading {
            home: Some(Path::new("/home/me")),
            folder: Some(Path::new("/project")),
            is_opencode: true,
            ..Reading::default()
        };
        for (text, expected) in [
            ("Bearer {file:~/.secrets/f}", "Bearer ${file:/home/me/.secrets/f}"),
            ("{file:./key}{env:X}", "${file:/project/key}${env:X}"),
            ("{file:/etc/key}", "${file:/etc/key}"),
            ("{file:open", "{file:open"),
        ] {
            assert_eq!(with_references(text, reading), expected, "{text}");
        }
        for unknown in [Reading { is_opencode: true, ..Reading::default() }, Reading::default()] {
            assert_eq!(with_references("{file:key}", unknown), "{file:key}");
        }
        let other = Reading { is_opencode: false, ..reading };
        assert_eq!(with_references("{file:/etc/key}{env:X}", other), "{file:/etc/key}${env:X}");
    }

    #[test]
    fn the_folder_of_a_project_is_known_from_its_file() {
        let translated = |folder: &str| {
            let reading = Reading {
                home: Some(Path::new("/home/me")),
                folder: Some(Path::new(folder)),
                ..Reading::default()
            };
            let server = json!({ "command": "x", "args": ["--root=${workspaceFolder}/src"] });
            let mut keys = server.as_object().cloned().unwrap();
            translate(&mut keys, reading, &mut Vec::new());
            keys["args"][0].as_str().unwrap().to_owned()
        };
        assert_eq!(translated("/srv/app/.vscode"), "--root=/srv/app/src");
        for folder in ["/home/me/.cursor", "/srv/app", "/"] {
            assert_eq!(translated(folder), "--root=${workspaceFolder}/src", "{folder}");
        }
    }

    #[test]
    fn variables_of_gemini_get_braces() {
        for (text, expected) in [
            ("$MY_TOKEN", "${env:MY_TOKEN}"),
            ("Bearer $A.$B2/x", "Bearer ${env:A}.${env:B2}/x"),
            ("${C} and $$ and $5 and $", "${C} and $$ and $5 and $"),
            ("pa$word123 and Pa$Word", "pa$word123 and Pa$Word"),
        ] {
            assert_eq!(with_braces(text), expected, "{text}");
        }
    }

    #[test]
    fn secrets_of_continue_are_variables() {
        for (text, expected) in [
            ("Bearer ${{ secrets.A_B }}/${{secrets.C}}", "Bearer ${env:A_B}/${env:C}"),
            ("${{ inputs.A }} ${{ secrets.a b }} ${{", "${{ inputs.A }} ${{ secrets.a b }} ${{"),
        ] {
            assert_eq!(with_secrets(text), expected, "{text}");
        }
    }

    #[test]
    fn an_address_of_gemini_is_of_the_older_transport_unless_it_looks_newer() {
        let read = |server: Value| {
            let (mut keys, mut notes) = (server.as_object().cloned().unwrap(), Vec::new());
            gemini(&mut keys, &mut notes);
            (keys.get("type").and_then(Value::as_str).map(str::to_owned), notes.len())
        };
        assert_eq!(read(json!({ "url": "https://a/sse" })), (Some("sse".to_owned()), 1));
        assert_eq!(read(json!({ "url": "https://a/mcp" })), (None, 1));
        assert_eq!(read(json!({ "httpUrl": "https://a" })), (None, 0));
        assert_eq!(read(json!({ "url": "https://a", "type": "http" })), (Some("http".to_owned()), 0));
    }
}
