//! Payloads as Claude Code 2.1 and Codex 0.171 send them, and the answers that they understand.
#![expect(clippy::expect_used, reason = "helpers of tests")]

use serde_json::{Value, json};
use vmcp_hooks::decision::{Decision, KnownSessions, Moment, decide};
use vmcp_hooks::hook_call::{HookCall, HookError, StartSource};
use vmcp_hooks::hook_type::HookType;
use vmcp_hooks::native::{NativeAnswer, NativeClient};
use vmcp_hooks::report::HookReport;

fn claude(event: &str, more: &Value) -> String {
    let mut payload = json!({
        "session_id": "abc123", "prompt_id": "p1", "cwd": "/home/me/project",
        "transcript_path": "/home/me/.claude/projects/project/abc123.jsonl",
        "permission_mode": "default", "effort": {"level": "high"}, "hook_event_name": event,
    });
    extend(&mut payload, more)
}

fn codex(event: &str, more: &Value) -> String {
    let mut payload = json!({
        "session_id": "0199", "transcript_path": null, "cwd": "/home/me/project", "model": "gpt-5",
        "permission_mode": "default", "turn_id": "t1", "hook_event_name": event,
    });
    extend(&mut payload, more)
}

fn extend(payload: &mut Value, more: &Value) -> String {
    let payload = payload.as_object_mut().expect("an object");
    payload.extend(more.as_object().expect("an object").clone());
    Value::from(payload.clone()).to_string()
}

fn read(client: NativeClient, payload: &str) -> HookCall {
    client.read(payload).expect("a payload").expect("a hook")
}

fn decided(call: &HookCall, known: KnownSessions) -> Decision {
    let moment = Moment { now: 1, new_id: "u".to_owned(), machine_id: "m".to_owned(), summary: None };
    decide(call, known, moment)
}

#[test]
fn recorded_payloads_become_hooks() {
    let (of_claude, of_codex) = (NativeClient::Claude, NativeClient::Codex);
    let start = read(of_claude, &claude("SessionStart", &json!({"source": "fork", "model": "opus"})));
    assert_eq!((start.hook_type, start.params.start), (HookType::SessionStart, StartSource::Fork));
    assert_eq!((start.source.as_str(), start.project()), ("claude", "/home/me/project"));
    let prompt = read(of_claude, &claude("UserPromptSubmit", &json!({"prompt": "Fix it"})));
    assert_eq!((prompt.hook_type, prompt.params.prompt.as_deref()), (HookType::PromptSubmit, Some("Fix it")));
    let tool = json!({"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "1"});
    assert_eq!(read(of_claude, &claude("PreToolUse", &tool)).params.detail.as_deref(), Some("Bash"));
    let compacted = json!({"trigger": "auto", "compact_summary": "so far"});
    let compacted = read(of_claude, &claude("PostCompact", &compacted));
    assert_eq!(compacted.params.compact_summary.as_deref(), Some("so far"));
    assert_eq!(compacted.params.detail.as_deref(), Some("auto"));
    let stop = json!({"stop_hook_active": false, "last_assistant_message": "Done", "background_tasks": []});
    assert_eq!(read(of_claude, &claude("Stop", &stop)).hook_type, HookType::Stop);
    let end = read(of_claude, &claude("SessionEnd", &json!({"reason": "clear"})));
    assert!(end.hands_off() && end.params.transcript_path.is_some());

    let start = read(of_codex, &codex("SessionStart", &json!({"source": "compact"})));
    assert_eq!((start.params.start, start.source.as_str()), (StartSource::Compact, "codex"));
    assert_eq!(start.params.transcript_path, None);
    let end = json!({"session_id": "0199", "transcript_path": null, "cwd": "/p", "reason": "other",
                     "hook_event_name": "SessionEnd"});
    assert!(read(of_codex, &end.to_string()).hands_off());
    assert_eq!(read(of_codex, &codex("PostToolUse", &tool)).hook_type, HookType::PostToolUse);
    assert_eq!(read(of_codex, &codex("Interrupt", &json!({}))).hook_type, HookType::Interrupt);
}

#[test]
fn other_events_are_passed_over_and_mistakes_are_named() {
    for event in NativeClient::Claude.events() {
        assert!(NativeClient::Claude.read(&claude(event, &json!({}))).unwrap().is_some(), "{event}");
    }
    for event in NativeClient::Codex.events() {
        assert!(NativeClient::Codex.read(&codex(event, &json!({}))).unwrap().is_some(), "{event}");
    }
    assert_eq!(NativeClient::Codex.read(&codex("Notification", &json!({}))), Ok(None));
    for event in ["Setup", "TaskCreated", "FutureEvent"] {
        assert_eq!(NativeClient::Claude.read(&claude(event, &json!({}))), Ok(None), "{event}");
    }
    let missing = NativeClient::Claude.read("{}");
    assert_eq!(missing, Err(HookError::Missing("hook_event_name")));
    let nameless = json!({"hook_event_name": "Stop"});
    let nameless = NativeClient::Codex.read(&nameless.to_string());
    assert_eq!(nameless, Err(HookError::Missing("session_id")));
    let list = NativeClient::Codex.read("[]").unwrap_err().to_string();
    assert_eq!(list, "the hook must be a JSON object without repeated keys");
    let arguments = NativeClient::Codex.as_arguments(r#"{"hook_event_name": "Stop", "session_id": "s"}"#);
    let arguments = HookCall::read(&arguments.unwrap()).unwrap();
    assert_eq!((arguments.hook_type, arguments.source.as_str()), (HookType::Stop, "codex"));
}

#[test]
fn keys_and_reasons_of_newer_clients_lose_no_hook() {
    let newer = json!({"source": "teleport", "team": {"id": 7}, "tool_input": [1], "matcher": null});
    for client in [NativeClient::Claude, NativeClient::Codex] {
        for event in client.events() {
            let payload = match client {
                NativeClient::Claude => claude(event, &newer),
                NativeClient::Codex => codex(event, &newer),
            };
            let call = read(client, &payload);
            assert_eq!(call.params.start, StartSource::Startup, "{event}");
        }
    }
    let odd = codex("SessionStart", &json!({"source": {"kind": "subagent"}}));
    assert_eq!(read(NativeClient::Codex, &odd).params.start, StartSource::Startup);
    // A program that writes vmcp's own form is told its mistake.
    let arguments = NativeClient::Codex.as_arguments(&odd).unwrap();
    assert!(HookCall::read(&arguments).unwrap_err().to_string().starts_with("params.source must be"));
}

/// Keys that the answers of Codex may have; its schemas refuse every other one.
#[test]
fn answers_have_no_key_that_codex_refuses() {
    for event in NativeClient::Codex.events() {
        let call = read(NativeClient::Codex, &codex(event, &json!({"source": "clear"})));
        let mut parent = decided(&call, KnownSessions::default()).session;
        parent.summary = Some("x".repeat(20_000));
        let known = KnownSessions { session: None, waiting: Some(parent) };
        let report = HookReport::new(&call, decided(&call, known), None);
        let answer = serde_json::to_value(NativeAnswer::new(&report)).unwrap();
        if *event == "SessionStart" {
            let output = &answer["hookSpecificOutput"];
            assert_eq!(output["hookEventName"], "SessionStart");
            let context = output["additionalContext"].as_str().unwrap();
            assert!(context.contains("kept by vmcp") && context.len() == 9_000, "{}", context.len());
            assert_eq!((answer.as_object().unwrap().len(), output.as_object().unwrap().len()), (1, 2));
        } else {
            assert_eq!(answer, json!({}), "{event}");
        }
    }
}
