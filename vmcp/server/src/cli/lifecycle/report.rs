//! Reports of start, stop, restart and status: one JSON object each, also the results of the tools of
//! `vmcp mcp-server`. Keys and messages are those of the Gobby daemon's tools, so that their users need not
//! relearn them.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use vmcp_config::status::{BackendState, StatusReport};

use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::running_server::RunningServer;

/// Width of the banner, in columns.
pub(super) const BANNER_WIDTH: usize = 70;

/// State of the server of a configuration file.
#[derive(Debug, Default)]
pub(super) struct ServerState {
    /// Ports and process, from its state file.
    pub(super) running: Option<RunningServer>,
    /// Its own report; `None` for a server that does not answer.
    pub(super) status: Option<StatusReport>,
}

impl ServerState {
    /// Returns the process.
    pub(super) fn pid(&self) -> Option<u32> {
        self.status.as_ref().map(|status| status.pid).or(self.running.as_ref().map(|running| running.pid))
    }

    /// Writes the object of `status`.
    pub(super) fn to_json(&self) -> Value {
        let port = |port: Option<u16>| port.map_or(Value::Null, Value::from);
        let (running, pid) = (self.running.as_ref(), self.pid());
        json!({
            "running": pid.is_some(),
            "pid": pid,
            "healthy": self.status.is_some(),
            "http_port": port(running.map(|running| running.mcp.port())),
            "websocket_port": port(running.and_then(|running| running.events).map(|events| events.port())),
            "admin_port": port(running.map(|running| running.admin.port())),
            "url": running.map(RunningServer::url),
            "daemon_details": self.status.as_ref().map(details),
            "formatted_message": self.banner(),
        })
    }

    /// Writes a banner for people.
    pub(super) fn banner(&self) -> String {
        let line = "=".repeat(BANNER_WIDTH);
        let mut text = format!("{line}\n  vmcp\n{line}\n");
        let mut row = |name: &str, value: &str| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {name}: {value}");
        };
        let Some(pid) = self.pid() else {
            row("Status", "Not running");
            return text + &line;
        };
        row("Status", if self.status.is_some() { "Running" } else { "Running, but it does not answer" });
        row("PID", &pid.to_string());
        if let Some(status) = &self.status {
            let uptime = humantime::format_duration(Duration::from_secs(status.uptime_seconds));
            row("Uptime", &uptime.to_string());
        }
        if let Some(running) = &self.running {
            row("HTTP Port", &running.mcp.port().to_string());
            row("Admin Port", &running.admin.port().to_string());
            if let Some(events) = running.events {
                row("WebSocket Port", &events.port().to_string());
            }
        }
        if let Some(status) = &self.status {
            let up = count(status, BackendState::Connected);
            row("Backends", &format!("{up}/{} connected", status.backends.len()));
            row("Tools", &status.tools.to_string());
        }
        text + &line
    }
}

/// Returns the number of backends in a state.
pub(super) fn count(status: &StatusReport, state: BackendState) -> usize {
    status.backends.iter().filter(|backend| backend.state == state).count()
}

fn details(status: &StatusReport) -> Value {
    let backends = status.backends.iter().map(|backend| {
        json!({ "name": backend.name, "state": backend.state.as_str(), "lastError": backend.last_error })
    });
    json!({
        "version": status.version, "uptimeSeconds": status.uptime_seconds,
        "connections": status.connections, "tools": status.tools,
        "connectedBackends": count(status, BackendState::Connected),
        "backends": backends.collect::<Value>(), "embeddings": status.embeddings,
        "configurationRefused": status.configuration.refused.is_some(),
    })
}

/// Prints the report of a start, stop or restart: the JSON object for programs, `human` for people. A failure
/// is an object too where a program reads it.
pub(super) fn print(
    format: OutputFormat,
    outcome: Result<(Value, Exit), CommandFailure>,
    human: impl FnOnce(&Value),
) -> Result<Exit, CommandFailure> {
    match outcome {
        Ok((report, exit)) if format == OutputFormat::Table => {
            human(&report);
            Ok(exit)
        }
        Ok((report, exit)) => output::print(format, &report, String::new).map(|()| exit),
        Err(failure) if format == OutputFormat::Table => Err(failure),
        Err(failure) => {
            let report = json!({
                "success": false, "error": failure.message(), "message": failure.message(), "try": failure.remedy_text(),
            });
            output::print(format, &report, String::new).map(|()| failure.exit_code())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::running_server::serve_options::ServeOptions;

    #[test]
    fn a_status_has_every_key_whether_a_server_runs_or_not() {
        let running = RunningServer {
            pid: 7,
            mcp: "127.0.0.1:8765".parse().unwrap(),
            tls: false,
            admin: "127.0.0.1:8767".parse().unwrap(),
            events: Some("127.0.0.1:8766".parse().unwrap()),
            config: "/vmcp.yaml".into(),
            options: ServeOptions::default(),
        };
        let status = StatusReport { pid: 7, ..StatusReport::default() };
        let up = ServerState { running: Some(running.clone()), status: Some(status) };
        let (up, down) = (up.to_json(), ServerState::default().to_json());
        assert_eq!((&up["running"], &up["pid"], &up["healthy"]), (&json!(true), &json!(7), &json!(true)));
        assert_eq!((&up["http_port"], &up["websocket_port"]), (&json!(8765), &json!(8766)));
        let banner = up["formatted_message"].as_str().unwrap();
        assert!(banner.contains("Status: Running\n") && banner.contains("HTTP Port: 8765\n"), "{banner}");
        assert_eq!(
            (&down["running"], &down["pid"], &down["healthy"]),
            (&json!(false), &json!(null), &json!(false))
        );
        let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&up), keys(&down));
        let silent = ServerState { running: Some(running), status: None }.to_json();
        assert_eq!((&silent["running"], &silent["healthy"]), (&json!(true), &json!(false)));
    }
}
