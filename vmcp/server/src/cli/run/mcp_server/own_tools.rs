//! The tools of `vmcp mcp-server` itself: `start`, `stop`, `restart`, `status`, `init_project`. They work
//! while no server runs. The local program alone offers them, and no port does.

use serde_json::value::RawValue;
use serde_json::{Value, json};
use vmcp_json::json_rope::JsonRope;
use vmcp_json::object::Object;

/// Names, in the order of the list.
pub(super) const NAMES: [&str; 5] = ["start", "stop", "restart", "status", "init_project"];

/// Returns the definitions, as entries of `tools/list`.
fn definitions() -> Vec<Value> {
    let empty = || json!({ "type": "object", "properties": {} });
    let text = |description: &str| json!({ "type": "string", "description": description });
    let project = json!({ "type": "object", "properties": {
        "name": text("Name of the project; by default that of the folder"),
        "github_url": text("URL of the project; by default that of git's remote `origin`"),
    }});
    let descriptions = [
        "Starts the vmcp daemon, which serves all tools of all connected servers. Use it if other tools say \
         that the daemon is not running.",
        "Stops the vmcp daemon, for all clients that use it. Until start() is called, only these tools work.",
        "Restarts the vmcp daemon, for all clients that use it, for instance if it is unhealthy or stuck.",
        "Tells whether the vmcp daemon runs and answers, its ports, uptime and connected servers.",
        "Makes the current folder a project: writes .vmcp/project.json with its id, unless there is one.",
    ];
    let hints = [(false, false), (false, true), (false, true), (true, false), (false, false)];
    let entries = NAMES.iter().zip(descriptions).zip(hints);
    let entry = |((name, description), (reads, destroys)): ((&&str, &str), (bool, bool))| {
        json!({
            "name": name, "description": description,
            "inputSchema": if *name == "init_project" { project.clone() } else { empty() },
            "annotations": { "readOnlyHint": reads, "destructiveHint": destroys, "openWorldHint": false },
        })
    };
    entries.map(entry).collect()
}

/// Returns the result of `tools/list` without a server: the own tools. `modern`: for a client of 2026-07-28.
pub(super) fn list_without_server(modern: bool) -> String {
    let mut result = json!({ "tools": definitions() });
    if modern && let Some(keys) = result.as_object_mut() {
        keys.insert("resultType".to_owned(), json!("complete"));
        keys.insert("ttlMs".to_owned(), json!(0));
        keys.insert("cacheScope".to_owned(), json!("private"));
    }
    result.to_string()
}

/// Adds the own tools to the server's result of `tools/list`; all other bytes stay. An own tool wins over a
/// tool of the server with its name, which `optim_call_tool` still calls. `None` without a list.
pub(super) fn join(result: &RawValue) -> Option<JsonRope<'_>> {
    let object = Object::parse(result).ok()?;
    let listed: Vec<&RawValue> = serde_json::from_str(object.text("tools")?).ok()?;
    let is_own = |entry: &RawValue| {
        let entry = Object::parse(entry).ok();
        entry.and_then(|entry| entry.get_str("name")).is_some_and(|name| NAMES.contains(&&*name))
    };
    let theirs = listed.into_iter().filter(|entry| !is_own(entry)).map(|entry| entry.get().to_owned());
    let all: Vec<_> = theirs.chain(definitions().iter().map(Value::to_string)).collect();
    let mut edit = object.edit();
    edit.set("tools", format!("[{}]", all.join(",")));
    Some(edit.finish())
}

/// Writes the result of a call: the report as structured content and as text. A report of a failure is an
/// error for the model, but for a start or stop that found nothing to do.
pub(super) fn result(report: &Value, modern: bool) -> String {
    let idle = report["already_running"] == true || report["not_running"] == true;
    let mut result = json!({
        "content": [{ "type": "text", "text": report.to_string() }],
        "structuredContent": report,
        "isError": report["success"] == false && !idle,
    });
    if modern && let Some(keys) = result.as_object_mut() {
        keys.insert("resultType".to_owned(), json!("complete"));
    }
    result.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_tools_join_the_servers_list_and_win_over_its_names() {
        let text = r#"{"tools":[{"name":"echo","x":1e400},{"name":"status"}],"nextCursor":"c"}"#;
        let listed = RawValue::from_string(text.to_owned()).unwrap();
        let joined = join(&listed).unwrap().into_cow().into_owned();
        assert!(joined.starts_with(r#"{"tools":[{"name":"echo","x":1e400},{"#), "{joined}");
        assert!(joined.ends_with(r#"],"nextCursor":"c"}"#), "{joined}");
        let own = serde_json::from_str::<Value>(&list_without_server(false)).unwrap();
        let names: Vec<_> = own["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
        assert_eq!(names, NAMES);
        assert_eq!(joined.matches(r#""name":"status""#).count(), 1);
        assert!(join(&RawValue::from_string("{}".to_owned()).unwrap()).is_none());
    }

    #[test]
    fn a_failure_is_an_error_and_nothing_to_do_is_none() {
        let of = |report: Value| serde_json::from_str::<Value>(&result(&report, true)).unwrap();
        assert_eq!(of(json!({"success": false, "already_running": true}))["isError"], false);
        let failed = of(json!({"success": false, "error": "no"}));
        assert_eq!((&failed["isError"], &failed["resultType"]), (&json!(true), &json!("complete")));
        assert_eq!(failed["structuredContent"]["error"], "no");
    }
}
