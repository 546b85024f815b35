//! An app server of Codex: a fake one in the shell behind the adapter.

use std::collections::BTreeMap;
use std::path::PathBuf;

use vmcp_backend::{Backend, Request, Response};
use vmcp_config::{Codex, Transport};

use crate::support::{json, params_of, result, settings, spec, wait_for_definitions};

/// Answers each turn with one message; dies in a turn whose prompt is `die`.
const FAKE: &str = r#"
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  reply() { printf '{"id":%s,"result":%s}\n' "$id" "$1"; }
  case $line in
    *'"method":"initialize"'*) reply '{"userAgent":"fake"}';;
    *'"method":"thread/start"'*) reply '{"thread":{"id":"t"}}';;
    *'"method":"turn/start"'*'"text":"die"'*) echo 'out of luck' >&2; exit 7;;
    *'"method":"turn/start"'*)
      reply '{"turn":{"id":"u"}}'
      echo '{"method":"new/notification","params":{"threadId":"t"}}'
      echo '{"method":"item/completed","params":{"threadId":"t","item":{"type":"agentMessage","text":"done"}}}'
      echo '{"method":"turn/completed","params":{"threadId":"t","turn":{"id":"u","status":"completed"}}}';;
  esac
done
"#;

fn fake(cwd: Option<PathBuf>) -> vmcp_config::Backend {
    let transport = Transport::Stdio {
        command: "sh".to_owned(),
        args: vec!["-c".to_owned(), FAKE.to_owned()],
        env: BTreeMap::new(),
        cwd,
        inherit_env: Vec::new(),
        idle_timeout: None,
    };
    vmcp_config::Backend { codex: Some(Codex::default()), ..spec("codex", transport) }
}

async fn turn(backend: &Backend, prompt: &str) -> Response {
    let params = params_of(&format!(r#"{{"name":"codex","arguments":{{"prompt":"{prompt}"}}}}"#));
    backend.request(Request { subject: Some("codex"), ..Request::new("tools/call", &params) }).await.unwrap()
}

#[tokio::test]
async fn codex_is_listed_and_called_as_an_mcp_server() {
    let backend = Backend::start(fake(Some(std::env::temp_dir())), settings(), None);
    let found = wait_for_definitions(&backend, |found| found.tools.len() == 3).await;
    assert!(found.tools.iter().any(|tool| tool.name == "codex"));
    assert_eq!(backend.status().transport, "codex");
    let response = turn(&backend, "go").await;
    let told = json(result(&response))["structuredContent"].clone();
    assert_eq!((&told["response"], &told["success"]), (&"done".into(), &true.into()), "{told}");
    backend.stop().await;
}

#[tokio::test]
async fn a_death_in_a_turn_is_answered_with_the_thread() {
    let backend = Backend::start(fake(Some(std::env::temp_dir())), settings(), None);
    let response = turn(&backend, "die").await;
    let answer = json(result(&response));
    assert_eq!((&answer["isError"], &answer["structuredContent"]["thread_id"]), (&true.into(), &"t".into()));
    assert!(result(&response).contains("Codex ended"), "{answer}");
    backend.stop().await;
}

#[tokio::test]
async fn the_directory_of_vmcp_is_no_workspace() {
    let backend = Backend::start(fake(None), settings(), None);
    let response = turn(&backend, "go").await;
    assert!(result(&response).contains("neither `cwd` nor `codex.workspaces`"), "{}", result(&response));
    backend.stop().await;
}
