//! `vmcp hooks send`: the command of a hook. Passes the payload of standard input to the server, and the
//! answer to standard output.

use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::time::Duration;

use clap::Args;
use reqwest::redirect::Policy;
use serde_json::{Map, Value};
use url::Url;
use vmcp_config::Secret;
use vmcp_error_chain::error_chain;
use vmcp_hooks::native::NativeClient;

use super::{Client, hook_url, is_loopback};
use crate::cli::connection::http_client;
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::options::GlobalOptions;
use crate::cli::process;
use vmcp_engine::access::agent_sessions::end_of;

/// Bytes of a payload; a larger one is refused.
const MAX_PAYLOAD_BYTES: u64 = 2 * 1024 * 1024;
/// Bytes of a transcript that are sent: its end.
const MAX_TRANSCRIPT_BYTES: u64 = 1024 * 1024;
/// Time for the server's answer. A client waits for it.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of the server's answer; a longer one is refused.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;
/// Events that the end of the transcript goes with.
const WITH_TRANSCRIPT: [&str; 2] = ["SessionEnd", "PreCompact"];

/// Send the hook on standard input to the server, and print its answer
///
/// Clients run this command; `vmcp hooks install` writes it. At the end of a session it adds the end of the
/// transcript, 1 MiB at most. A failure has exit code 1: with 2, a hook would stop the client.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Coding agent
    client: Client,
    /// Server elsewhere [default: the one of the configuration file]
    #[arg(long, value_name = "URL")]
    url: Option<Url>,
    /// Bearer token for a server with identities
    #[arg(long, value_name = "TOKEN", env = "VMCP_HOOKS_TOKEN", hide_env_values = true)]
    token: Option<Secret>,
}

/// Runs the command.
pub(super) fn run(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let Arguments { client, url, token } = arguments;
    let client = client.native();
    let payload = with_transcript(read_payload()?);
    let sent = hook_url(client, url.as_ref(), global)
        .and_then(|url| process::block_on(send(client, url, token, payload.to_string())));
    let answer = sent.map_err(|failure| failure.exit(Exit::Failed))?;
    let mut output = io::stdout().lock();
    let written = writeln!(output, "{answer}");
    written.map_err(|error| CommandFailure::of_pipe("standard output", &error))?;
    Ok(Exit::Done)
}

fn read_payload() -> Result<Map<String, Value>, CommandFailure> {
    let mut text = String::new();
    let read = io::stdin().lock().take(MAX_PAYLOAD_BYTES + 1).read_to_string(&mut text);
    read.map_err(|error| CommandFailure::of_pipe("standard input", &error))?;
    if text.len() as u64 > MAX_PAYLOAD_BYTES {
        return Err(CommandFailure::new(format!("the hook is larger than {MAX_PAYLOAD_BYTES} bytes")));
    }
    serde_json::from_str(&text)
        .map_err(|_| CommandFailure::new("standard input is no JSON object, as a client's hook is"))
}

/// Adds the end of the transcript, if the event is summed up, and the transcript can be read.
fn with_transcript(mut payload: Map<String, Value>) -> Value {
    let text = |name: &str| payload.get(name).and_then(Value::as_str);
    let is_summed = text("hook_event_name").is_some_and(|event| WITH_TRANSCRIPT.contains(&event));
    // A pipe or a device would block.
    let path = text("transcript_path").map(Path::new).filter(|path| is_summed && path.is_file());
    if let Some(Ok(transcript)) = path.map(|path| end_of(path, MAX_TRANSCRIPT_BYTES)) {
        payload.insert("transcript".to_owned(), transcript.into());
    }
    payload.into()
}

/// Posts the payload; returns the answer, a JSON object.
async fn send(
    client: NativeClient,
    url: Url,
    token: Option<Secret>,
    payload: String,
) -> Result<Value, CommandFailure> {
    check_way(&url, token.as_ref())?;
    let unreachable = |error: reqwest::Error| {
        CommandFailure::new(format!("{url}: {}", error_chain(&error.without_url())))
            .remedy("is `vmcp start` running, with optimizer.sessionHooks.enabled: true?")
    };
    // A redirect would lead the token and the transcript elsewhere.
    let http = http_client::builder().redirect(Policy::none()).timeout(TIMEOUT);
    let http = http.build().map_err(unreachable)?;
    let mut request = http.post(url.clone()).header("content-type", "application/json").body(payload);
    if let Some(token) = token {
        request = request.bearer_auth(token.expose());
    }
    let mut answer =
        request.send().await.and_then(reqwest::Response::error_for_status).map_err(unreachable)?;
    if answer.status().is_redirection() {
        return Err(CommandFailure::new(format!(
            "{url}: the server redirects, and a hook follows no redirect"
        ))
        .remedy("name the server's own address by --url"));
    }
    let mut bytes = Vec::new();
    while let Some(piece) = answer.chunk().await.map_err(unreachable)? {
        if bytes.len() + piece.len() > MAX_ANSWER_BYTES {
            return Err(CommandFailure::new(format!(
                "{url}: the answer is larger than {MAX_ANSWER_BYTES} bytes"
            )));
        }
        bytes.extend_from_slice(&piece);
    }
    serde_json::from_slice::<Map<String, Value>>(&bytes).map(Value::Object).map_err(|_| {
        CommandFailure::new(format!("{url}: no answer for {}, but something else", client.name()))
    })
}

/// Refuses to send a token in clear text to another machine.
fn check_way(url: &Url, token: Option<&Secret>) -> Result<(), CommandFailure> {
    if token.is_some() && url.scheme() != "https" && !is_loopback(url) {
        return Err(CommandFailure::new(format!("{url}: the token would travel in clear text"))
            .remedy("name the server by --url with https://"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_to_another_machine_by_tls_only() {
        let token = Secret::from("hunter2".to_owned());
        for (url, is_sent) in [
            ("https://mcp.example.com/hooks/codex", true),
            ("http://127.0.0.1:8080/hooks/codex", true),
            ("http://localhost:8080/hooks/codex", true),
            ("http://mcp.example.com/hooks/codex", false),
            ("http://192.0.2.1:8080/hooks/codex", false),
        ] {
            let url = Url::parse(url).unwrap();
            assert_eq!(check_way(&url, Some(&token)).is_ok(), is_sent, "{url}");
            assert!(check_way(&url, None).is_ok(), "{url}");
        }
    }
}
