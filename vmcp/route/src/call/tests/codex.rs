//! Threads of Codex behind the seam, with a fake app server in the shell.

use std::path::Path;

use serde_json::{Value, json};
use vmcp_store::SessionQuery;

use crate::Caller;
use crate::testing::{KEYWORDS, call_with, engine};
use vmcp_engine::access::identity::{Identity, Principal};
use vmcp_engine::engine::Engine;

/// Starts the thread `t1`, resumes and archives any, lists `t1` and `other`. Logs all that it is told.
const FAKE: &str = r#"
while IFS= read -r line; do
  printf '%s\n' "$line" >>log
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  reply() { printf '{"id":%s,"result":%s}\n' "$id" "$1"; }
  case $line in
    *'"method":"initialize"'*) reply '{}';;
    *'"method":"thread/start"'*) reply '{"thread":{"id":"t1"}}';;
    *'"method":"thread/resume"'*) reply '{"thread":{"id":"t1"}}';;
    *'"method":"thread/list"'*) reply '{"data":[{"id":"t1"},{"id":"other"}],"nextCursor":null}';;
    *'"method":"turn/start"'*)
      reply '{"turn":{"id":"u"}}'
      echo '{"method":"turn/completed","params":{"threadId":"t1","turn":{"id":"u","status":"completed"}}}';;
    *'"id"'*) reply '{}';;
  esac
done
"#;

fn entry(name: &str, dir: &Path) -> Value {
    json!({"name": name, "transport": "codex", "command": ["sh", "-c", FAKE], "cwd": dir})
}

/// Returns what app servers in a directory were told about threads and turns.
fn told(dir: &Path) -> Vec<String> {
    let log = std::fs::read_to_string(dir.join("log")).unwrap();
    let methods = ["\"method\":\"thread/", "\"method\":\"turn/"];
    let is_told = |line: &&str| methods.iter().any(|method| line.contains(method));
    log.lines().filter(is_told).map(str::to_owned).collect()
}

fn known(name: &str) -> Caller {
    let identity = Identity::known("https://idp.example", name, serde_json::Map::new(), None);
    Caller { principal: Principal::from(identity), ..Caller::default() }
}

async fn ask(engine: &Engine, caller: &Caller, tool: &str, arguments: Value) -> Value {
    let answer = call_with(engine, caller, json!({"name": tool, "arguments": arguments})).await.unwrap();
    let text: Value = serde_json::from_str(answer["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text, answer["structuredContent"], "both forms say the same");
    text
}

#[tokio::test]
async fn a_thread_is_of_use_to_its_principal_alone() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(&format!("backends: [{}]\n{KEYWORDS}", entry("coder", dir.path()))).await;
    let (alice, bob) = (known("alice"), known("bob"));
    let first = ask(&engine, &alice, "optim.codex", json!({"prompt": "go"})).await;
    let sessions = engine.agent_sessions();
    let settings = engine.snapshot().config.optimizer.session_hooks.clone();
    let kept = sessions.list(&alice.principal, &settings, SessionQuery::default()).await.unwrap();
    assert_eq!((first["session_id"].as_str(), kept.len()), (Some(kept[0].id.as_str()), 1), "{first}");
    assert_eq!((kept[0].source.as_str(), kept[0].external_id.as_str()), ("Codex", "t1"));
    let refused = json!({"success": false, "thread_id": "t1", "error": "thread not found"});
    for tool in ["optim.codex", "coder_codex", "codex"] {
        let again = json!({"prompt": "on", "thread_id": "t1"});
        let before = told(dir.path());
        assert_eq!(ask(&engine, &bob, tool, again.clone()).await, refused, "{tool}");
        assert_eq!(told(dir.path()), before, "the app server is told nothing of {tool}");
        let own = ask(&engine, &alice, tool, again).await;
        assert_eq!(
            (&own["session_id"], &own["is_continuation"]),
            (&first["session_id"], &json!(true)),
            "{tool}"
        );
    }
    let archive = "optim_codex_archive_thread";
    let before = told(dir.path());
    assert_eq!(ask(&engine, &bob, archive, json!({"thread_id": "t1"})).await, refused);
    // Unknown threads are in reach of the person of this machine: another spelling must not be one.
    let spelled = json!({"prompt": "on", "thread_id": "T1"});
    let spelled = ask(&engine, &Caller::default(), "optim.codex", spelled).await;
    assert!(spelled["error"].as_str().unwrap().starts_with("thread_id may hold"), "{spelled}");
    assert_eq!(told(dir.path()), before);
    assert_eq!(
        ask(&engine, &alice, archive, json!({"thread_id": "t1"})).await["message"],
        "Thread t1 archived"
    );
    let ids = async |caller: &Caller| {
        let page = ask(&engine, caller, "optim.codex_list_threads", json!({})).await;
        page["threads"].as_array().unwrap().iter().map(|thread| thread["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&alice).await, ["t1"]);
    assert!(ids(&bob).await.is_empty());
    // The person of this machine also sees what was started outside of vmcp.
    assert_eq!(ids(&Caller::default()).await, ["other"]);
}

#[tokio::test]
async fn two_codexes_have_no_common_name() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (entry("a", dir.path()), entry("b", dir.path()));
    let engine = engine(&format!("backends: [{a}, {b}]\n{KEYWORDS}")).await;
    let named = |tool: &str| json!({"name": tool, "arguments": {"prompt": "go"}});
    let caller = Caller::default();
    assert!(call_with(&engine, &caller, named("optim.codex")).await.is_err());
    assert!(call_with(&engine, &caller, named("b_codex")).await.is_ok());
}
