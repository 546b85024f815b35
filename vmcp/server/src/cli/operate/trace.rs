//! `vmcp trace`: everything that the running server keeps about one call.

use clap::Args;
use url::form_urlencoded;

use super::follow::{clock, log_line};
use crate::cli::connection::{self, ServerOptions};
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes::counted;
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::console::paint::{Tone, paint};
use crate::cli::options::GlobalOptions;
use vmcp_config::sanitize;
use vmcp_edge::port::admin::diagnosis::call_trace::CallTrace;
use vmcp_engine::telemetry::recent::{RecentCall, TracedCall};

/// Show one call: caller, policy, times, the calls within it, its log lines
#[derive(Debug, Args)]
#[command(after_help = "\
The latest 1000 calls of the process are kept: no arguments; of a failure the first 300 characters, which
may quote them.

Examples:
  vmcp calls                                    the number of each call is in the first column
  vmcp trace 12
  vmcp trace 4bf92f3577b34da6a3ce929d0e0e4736    all calls of a W3C trace")]
pub(in crate::cli) struct Arguments {
    /// Number of the call, or W3C trace id
    call_id: String,
    /// Format of the result
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: OutputFormat,
    #[command(flatten)]
    server_options: ServerOptions,
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: &Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let id: String = form_urlencoded::byte_serialize(arguments.call_id.as_bytes()).collect();
    connection::with_server(global, &arguments.server_options, async |connection| {
        let trace: CallTrace = connection.lookup(&format!("admin/calls/trace?id={id}")).await?;
        output::print(arguments.output, &trace, || human_text(&trace))?;
        Ok(Exit::Done)
    })
}

fn human_text(trace: &CallTrace) -> String {
    let (within, outer): (Vec<_>, Vec<_>) = trace.calls.iter().partition(|call| call.within);
    let mut parts: Vec<String> = outer.into_iter().map(whole).collect();
    if !within.is_empty() {
        let rows = within.into_iter().map(row);
        let table = output::toned_table(["CALL", "BEGUN", "OUTCOME", "TOOK", "BACKEND", "ITEM"], rows);
        parts.push(format!("WITHIN IT\n{table}"));
    }
    if !trace.lines.is_empty() {
        let lines: Vec<_> = trace.lines.iter().map(log_line).collect();
        parts.push(format!("LOG\n{}", lines.join("\n")));
    }
    parts.join("\n\n")
}

fn tone(outcome: &str) -> Tone {
    if outcome == "ok" { Tone::Good } else { Tone::Bad }
}

fn id(call: &RecentCall) -> String {
    call.id.map_or_else(|| "-".to_owned(), |id| id.to_string())
}

fn row(traced: &TracedCall) -> (Option<Tone>, [String; 6]) {
    let call = &traced.call;
    let item = call.item.as_deref().unwrap_or(&call.method);
    let cells = [
        id(call),
        clock(&traced.begun).to_owned(),
        call.outcome.clone(),
        format!("{:.1} ms", call.took_ms),
        call.backend.clone().unwrap_or_else(|| "-".to_owned()),
        item.to_owned(),
    ];
    ((call.outcome != "ok").then_some(Tone::Bad), cells)
}

/// Returns one call in lines of a name and a value.
fn whole(traced: &TracedCall) -> String {
    let TracedCall { call, begun, original, who, address, profile, policy, policy_version, .. } = traced;
    let TracedCall { webhooks, transmission, transport, requests, backend_ms, error, .. } = traced;
    let RecentCall { via, method, backend, item, outcome, took_ms, bytes_in, bytes_out, .. } = call;
    let mut lines = vec![format!("call {}  {begun}  {}", id(call), paint(tone(outcome), outcome))];
    // Texts of clients and servers: a line end would make a line that looks like one of these.
    let mut add = |name: &str, value: String| lines.push(format!("{name:12} {}", sanitize::text(&value)));
    let via = via.as_ref().map(|via| format!(", by {via}")).unwrap_or_default();
    add("what", format!("{method} {}{via}", item.as_deref().unwrap_or_default()));
    if let Some(backend) = backend {
        let own = original.as_ref().map(|name| format!(", which calls it `{name}`")).unwrap_or_default();
        add("backend", format!("{backend}{own}"));
    }
    let from = address.as_ref().map(|address| format!(" from {address}")).unwrap_or_default();
    let profile = profile.as_ref().map(|name| format!(", profile {name}")).unwrap_or_default();
    add("caller", format!("{who}{from}{profile}"));
    if let Some(operator) = &traced.operator {
        add("called by", format!("{operator}, on behalf of the caller"));
    }
    if let Some(policy) = policy {
        let version = policy_version.as_deref().and_then(|version| version.get(..12));
        let version = version.map(|version| format!(", version {version}")).unwrap_or_default();
        add("policy", format!("`{policy}` decided{version}"));
    }
    for webhook in webhooks {
        add("webhook", webhook.clone());
    }
    let own = (took_ms - backend_ms).max(0.0);
    add("took", format!("{took_ms:.1} ms: {backend_ms:.1} ms at the backend, {own:.1} ms before and after"));
    let over = transport.as_ref().map(|transport| format!(" over {transport}")).unwrap_or_default();
    let asked = counted(usize::try_from(*requests).unwrap_or(usize::MAX), "request");
    add("sent", format!("{asked}{over} ({transmission}), {bytes_in} bytes in, {bytes_out} bytes out"));
    if traced.pending {
        add("pending", "the answer is a question to the client, or a task".to_owned());
    }
    if let Some(error) = error {
        let code = traced.error_code.map(|code| format!(" (code {code})")).unwrap_or_default();
        add("error", format!("{error}{code}"));
    }
    if let Some(digest) = &traced.arguments_sha256 {
        add("arguments", format!("SHA-256 {digest}"));
    }
    if let Some(trace) = &traced.trace_id {
        add("trace id", trace.clone());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::console::paint::plain;

    #[test]
    fn a_call_is_shown_with_the_calls_within_it_and_its_log() {
        let call = |id: u64, within: bool, outcome: &str| {
            serde_json::json!({
                "id": id, "at": "2026-11-27T08:00:01.500Z", "via": "optim.call_tool", "method": "tools/call",
                "backend": "github", "item": "github_x", "outcome": outcome, "tookMs": 100.0, "bytesIn": 5,
                "bytesOut": 7, "within": within, "begun": "2026-11-27T08:00:01.400Z", "original": "x", "who": "alice",
                "address": null, "profile": null, "policy": "p0", "policyVersion": null, "webhooks": [],
                "transmission": "sent", "transport": "tcp", "requests": 1, "backendMs": 90.0, "error": null,
                "errorCode": null, "pending": false, "argumentsSha256": null, "traceId": null,
            })
        };
        let line = serde_json::json!({
            "at": "2026-11-27T08:00:01.450Z", "level": "WARN", "backend": "github", "text": "slow",
        });
        let trace =
            serde_json::json!({ "calls": [call(3, true, "denied"), call(4, false, "ok")], "lines": [line] });
        let text = plain(&human_text(&serde_json::from_value(trace).unwrap()));
        for part in [
            "call 4  2026-11-27T08:00:01.400Z  ok\nwhat         tools/call github_x, by optim.call_tool\n",
            "backend      github, which calls it `x`\ncaller       alice\npolicy       `p0` decided\n",
            "took         100.0 ms: 90.0 ms at the backend, 10.0 ms before and after\n",
            "sent         1 request over tcp (sent), 5 bytes in, 7 bytes out",
            "WITHIN IT\nCALL  BEGUN         OUTCOME",
            "LOG\n08:00:01.450 WARN  github: slow",
        ] {
            assert!(text.contains(part), "{part}\nin\n{text}");
        }
    }
}
