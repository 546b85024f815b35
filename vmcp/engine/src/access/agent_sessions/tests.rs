//! Hooks of principals, without a port.

use serde_json::{Value, json};

use super::*;
use vmcp_access::identity::Identity;

fn settings(dirs: &[&Path]) -> SessionHooks {
    let mut settings = crate::testing::config("").optimizer.session_hooks;
    settings.transcript_dirs = dirs.iter().map(|dir| (*dir).to_owned()).collect();
    settings
}

fn call(hook_type: &str, params: &Value) -> HookCall {
    let call = json!({"hook_type": hook_type, "params": params, "source": "Codex"});
    HookCall::read(&call.to_string()).unwrap()
}

#[tokio::test]
async fn a_summary_is_handed_over_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let (me, settings) = (Principal::default(), settings(&[]));
    let sessions = AgentSessions::new(Some(dir.path()));
    let start =
        |id: &str, source| call("SessionStart", &json!({"session_id": id, "source": source, "cwd": "/p"}));
    sessions.take_hook(&me, &settings, start("a", "startup")).await.unwrap();
    let transcript = "User: refactor auth\nAssistant: done";
    let end = call("SessionEnd", &json!({"session_id": "a", "transcript": transcript}));
    let ended = sessions.take_hook(&me, &settings, end).await.unwrap().result;
    assert_eq!(ended.status.name(), "handoff_ready");
    drop(sessions);
    let sessions = AgentSessions::new(Some(dir.path()));
    // One person, by another way to this machine.
    let local = Principal::at("127.0.0.1");
    let next = sessions.take_hook(&local, &settings, start("b", "clear")).await.unwrap().result;
    assert_eq!(next.parent_session_id, Some(ended.session_id.clone()));
    assert!(next.restored_summary.flatten().unwrap().contains("refactor auth"));
    assert!(is_session_id(&next.session_id) && next.machine_id == ended.machine_id);
    let listed = sessions.list(&me, &settings, SessionQuery::default()).await.unwrap();
    let states: Vec<_> = listed.iter().map(|session| session.status.name()).collect();
    assert_eq!(states, ["active", "expired"]);
    for local in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
        let seen = sessions.list(&Principal::at(local), &settings, SessionQuery::default()).await.unwrap();
        assert_eq!(seen, listed, "{local}");
    }
    let elsewhere = Principal::at("192.0.2.1");
    assert!(sessions.list(&elsewhere, &settings, SessionQuery::default()).await.unwrap().is_empty());
    assert_eq!(sessions.get(&elsewhere, &settings, ended.session_id.clone()).await, Ok(None));
    assert_eq!(sessions.remove(&elsewhere, ended.session_id).await, Ok(false));
}

#[tokio::test]
async fn a_path_is_read_for_the_person_of_this_machine_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.jsonl");
    std::fs::write(&path, "User: fix it").unwrap();
    let settings = settings(&[dir.path()]);
    let sessions = AgentSessions::new(None);
    let known =
        Principal::from(Identity::known("https://idp.example", "alice", serde_json::Map::new(), None));
    for (principal, status) in
        [(Principal::at("::1"), "handoff_ready"), (Principal::at("192.0.2.1"), "ended"), (known, "ended")]
    {
        let end = call("SessionEnd", &json!({"session_id": "a", "transcript_path": path}));
        let ended = sessions.take_hook(&principal, &settings, end).await.unwrap().result;
        assert_eq!((ended.status.name(), ended.note.is_some()), (status, status == "ended"), "{principal:?}");
    }
}
