//! Reports about a VirtualMCPServer, with the keys of the reports about a server of this machine.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::cli::console::output;
use crate::cli::kubernetes::server_resource::ServerResource;
use crate::cli::lifecycle::report::BANNER_WIDTH;

/// Writes the report of a start, stop or restart; `pod` is the name of a serving pod, if it is known.
pub(super) fn changed(server: &ServerResource, pod: Option<&str>, message: &str) -> Value {
    json!({
        "success": true, "message": message, "pid": null, "pod": pod, "healthy": server.is_ready(),
        "url": server.status.url, "formatted_message": banner(server),
    })
}

/// Writes the object of `status`. A server of a cluster has no process and no ports on this machine.
pub(super) fn to_json(server: &ServerResource) -> Value {
    let (status, metadata) = (&server.status, &server.metadata);
    let details = json!({
        "name": metadata.name, "namespace": metadata.namespace, "phase": status.phase,
        "suspended": server.spec.suspend, "replicas": status.replicas, "readyReplicas": status.ready_replicas,
        "message": status.message, "connectedBackends": status.backend_count, "tools": status.tool_count,
        "conditions": status.conditions,
    });
    json!({
        "running": status.replicas > 0, "pid": null, "healthy": server.is_ready(), "http_port": null,
        "websocket_port": null, "admin_port": null, "url": status.url, "daemon_details": details,
        "formatted_message": banner(server),
    })
}

/// Writes the state for people, with a table of the conditions.
pub(super) fn human_text(server: &ServerResource) -> String {
    let conditions = server.status.conditions.iter().map(|condition| {
        let cells = [&condition.kind, &condition.status, &condition.reason, &condition.message];
        cells.map(Clone::clone)
    });
    let table = output::table(["CONDITION", "STATUS", "REASON", "MESSAGE"], conditions);
    format!("{}\n{table}", summary(server))
}

/// Writes a banner for people, as plain text.
fn banner(server: &ServerResource) -> String {
    let ServerResource { metadata, spec, status } = server;
    let line = "=".repeat(BANNER_WIDTH);
    let state = match (spec.suspend, server.is_ready()) {
        (true, _) => "Suspended",
        (false, true) => "Running",
        (false, false) => "Not ready",
    };
    let mut text = format!("{line}\n  vmcp {} in namespace {}\n{line}\n", metadata.name, metadata.namespace);
    let rows = [
        ("Status", state.to_owned()),
        ("URL", status.url.clone().unwrap_or_default()),
        ("Pods", format!("{}/{} ready", status.ready_replicas, status.replicas)),
        ("Backends", format!("{} can be called", status.backend_count)),
        ("Tools", status.tool_count.to_string()),
    ];
    for (name, value) in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {name}: {value}");
    }
    if let Some(message) = &status.message {
        let _ = writeln!(text, "  Message: {message}");
    }
    text + &line
}

/// Writes the state in a few lines.
fn summary(server: &ServerResource) -> String {
    let (status, metadata) = (&server.status, &server.metadata);
    let suspended = if server.spec.suspend { ", suspended" } else { "" };
    format!(
        "VirtualMCPServer {} in namespace {}: {}{suspended}\nURL            {}\npods           {} of {} ready\n\
         backends       {} can be called\ntools          {}\n",
        metadata.name,
        metadata.namespace,
        status.phase.as_deref().unwrap_or("no status yet"),
        status.url.as_deref().unwrap_or("none yet"),
        status.ready_replicas,
        status.replicas,
        status.backend_count,
        status.tool_count,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::kubernetes::server_resource::Spec;
    use crate::cli::lifecycle::report::ServerState;

    #[test]
    fn a_status_has_the_keys_of_a_server_of_this_machine() {
        let ready = json!({ "type": "Ready", "status": "True", "reason": "PodsReady", "message": "2 of 2" });
        let server: ServerResource = serde_json::from_value(json!({
            "metadata": { "name": "x", "namespace": "n" },
            "status": {
                "phase": "Ready", "url": "http://vmcp-x.n.svc:4483/mcp", "replicas": 2, "readyReplicas": 2,
                "conditions": [ready],
            },
        }))
        .unwrap();
        let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let report = to_json(&server);
        assert_eq!(keys(&report), keys(&ServerState::default().to_json()));
        assert_eq!((&report["running"], &report["healthy"]), (&json!(true), &json!(true)));
        assert_eq!(report["daemon_details"]["conditions"][0]["reason"], "PodsReady");
        let banner = report["formatted_message"].as_str().unwrap();
        assert!(banner.contains("  Status: Running\n") && banner.contains("  Pods: 2/2 ready\n"), "{banner}");
        let text = human_text(&server);
        assert!(text.starts_with("VirtualMCPServer x in namespace n: Ready\n"), "{text}");
        assert!(text.contains("pods           2 of 2 ready\n") && text.contains("CONDITION"), "{text}");
        let suspended = ServerResource { spec: Spec { suspend: true, ..Spec::default() }, ..server };
        assert!(super::banner(&suspended).contains("  Status: Suspended\n"));
    }
}
