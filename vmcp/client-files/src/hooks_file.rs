//! Edits of a client's file of hooks, in the shape of Claude Code and Codex:
//! `{"hooks": {"SessionStart": [{"hooks": [{"type": "command", …}]}]}}`. Groups of handlers that are not
//! vmcp's own stay as they are.

use serde_json::{Value, json};

use crate::client_file::{ClientFormat, Document};

/// Key of the hooks.
const HOOKS: &str = "hooks";

/// Writes one group with one handler for each event, in place of groups whose handlers are all `own`.
///
/// # Examples
///
/// ```
/// use serde_json::{Value, json};
/// use vmcp_client_files::hooks_file::{install, remove};
///
/// let before = r#"{ "hooks": { "Stop": [{ "hooks": [{ "command": "beep" }] }] } } // mine"#;
/// let own = |handler: &Value| handler["url"] == "http://127.0.0.1:8080/hooks/claude";
/// let handler = json!({ "type": "http", "url": "http://127.0.0.1:8080/hooks/claude" });
/// let after = install(before, &[("Stop", handler)], &own)?;
/// assert!(after.contains("beep") && after.contains("/hooks/claude") && after.contains("// mine"));
///
/// let (undone, removed) = remove(&after, &own)?;
/// assert!(undone.contains("beep") && !undone.contains("/hooks/claude"));
/// assert_eq!(removed, 1);
/// # Ok::<(), String>(())
/// ```
pub fn install(
    text: &str,
    handlers: &[(&str, Value)],
    own: &dyn Fn(&Value) -> bool,
) -> Result<String, String> {
    let (text, _) = remove(text, own)?;
    let mut document = Document::parse(&text, ClientFormat::Json)?;
    let place = [HOOKS.to_owned()];
    for (event, handler) in handlers {
        let mut groups = groups(&document, event)?;
        groups.push(json!({ "hooks": [handler] }));
        document.set(&place, event, &Value::Array(groups))?;
    }
    document.text()
}

/// Removes groups whose handlers are all `own`, and events that are left without one. Returns the text and
/// the number of removed groups.
pub fn remove(text: &str, own: &dyn Fn(&Value) -> bool) -> Result<(String, usize), String> {
    let mut document = Document::parse(text, ClientFormat::Json)?;
    let place = [HOOKS.to_owned()];
    let is_own = |group: &Value| {
        let handlers = group.get(HOOKS).and_then(Value::as_array);
        handlers.is_some_and(|handlers| !handlers.is_empty() && handlers.iter().all(own))
    };
    let mut removed = 0;
    for (event, found) in document.entries(&place) {
        let Value::Array(found) = found else { continue };
        let before = found.len();
        let left: Vec<Value> = found.into_iter().filter(|group| !is_own(group)).collect();
        if left.len() == before {
            continue;
        }
        removed += before - left.len();
        if left.is_empty() {
            document.remove(&place, &event);
        } else {
            document.set(&place, &event, &Value::Array(left))?;
        }
    }
    if removed > 0 && document.entries(&place).is_empty() {
        document.remove(&[], HOOKS);
    }
    Ok((document.text()?, removed))
}

/// Returns the groups of an event.
fn groups(document: &Document, event: &str) -> Result<Vec<Value>, String> {
    let found = document.entries(&[HOOKS.to_owned()]).into_iter().find(|(name, _)| name == event);
    match found {
        None => Ok(Vec::new()),
        Some((_, Value::Array(groups))) => Ok(groups),
        Some(_) => Err(format!("hooks.{event} is no list")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(handler: &Value) -> bool {
        handler["command"] == "vmcp"
    }

    fn handler(timeout: u32) -> Value {
        json!({"type": "command", "command": "vmcp", "timeout": timeout})
    }

    #[test]
    fn a_second_installation_replaces_the_first_and_removal_restores_the_file() {
        let before = "{\n  \"model\": \"opus\", // mine\n  \"hooks\": {\n    \"Stop\": [{ \"matcher\": \"x\", \"hooks\": [{ \"command\": \"beep\" }] }]\n  }\n}\n";
        let once = install(before, &[("Stop", handler(1)), ("SessionEnd", handler(1))], &own).unwrap();
        let twice = install(&once, &[("Stop", handler(2))], &own).unwrap();
        let parsed = Document::parse(&twice, ClientFormat::Json).unwrap().entries(&["hooks".to_owned()]);
        assert_eq!(parsed.len(), 1, "{twice}");
        assert_eq!(parsed[0].1[1]["hooks"][0]["timeout"], 2);
        assert!(twice.contains("// mine"), "{twice}");
        let (undone, removed) = remove(&twice, &own).unwrap();
        assert_eq!(removed, 1);
        let read =
            |text: &str| Document::parse(text, ClientFormat::Json).unwrap().entries(&["hooks".to_owned()]);
        assert_eq!(read(&undone), read(before));
    }

    #[test]
    fn an_empty_file_gets_the_hooks_and_loses_them_again() {
        let after = install("", &[("SessionStart", handler(1))], &own).unwrap();
        assert!(after.contains("SessionStart"), "{after}");
        let (undone, removed) = remove(&after, &own).unwrap();
        assert_eq!((undone.replace(char::is_whitespace, "").as_str(), removed), ("{}", 1));
        assert_eq!(remove("{}", &own).unwrap().1, 0);
    }

    #[test]
    fn a_group_that_a_person_extended_stays() {
        let text = json!({"hooks": {"Stop": [{"hooks": [handler(1), {"command": "beep"}]}]}}).to_string();
        assert_eq!(remove(&text, &own).unwrap(), (text.clone(), 0));
    }

    #[test]
    fn another_shape_is_refused() {
        let error = install(r#"{"hooks": {"Stop": 1}}"#, &[("Stop", handler(1))], &own).unwrap_err();
        assert_eq!(error, "hooks.Stop is no list");
        assert!(install(r#"{"hooks": []}"#, &[("Stop", handler(1))], &own).is_err());
        assert!(install("[1]", &[], &own).is_err());
    }
}
