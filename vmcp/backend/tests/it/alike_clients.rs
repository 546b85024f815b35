//! Clients that have one name at one address share nothing by guess; programs that may run once serve all.

use std::time::Duration;

use serde_json::Value;
use vmcp_backend::{
    Backend, ClientFacts, ClientInstance, Event, EventReceiver, Principal, RpcOutcome, event_queue,
};
use vmcp_config::{Isolation, Transport};

use crate::isolation::{ALL, Asker, OTHER, STATEFUL, isolated, question};
use crate::processes::shell;
use crate::support::{SESSION, client, eventually, params_of, raw, result, settings, wait_for_definitions};

/// A modern program that logs the text of each call, 0.3 s after it came, and again after its answer.
const LOGGING: &str = r#"
    say() { printf '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%s"}}\n' "$1"; }
    case $method in
      server/discover) reply '{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"logging":{}}}';;
      initialize) refuse;;
      tools/list) reply "$tools";;
      tools/call) text=${line#*'"text":"'}; text=${text%%'"'*}
        (sleep 0.3; say "$text"; reply '{"resultType":"complete"}'; sleep 0.2; say "late $text") & ;;
    esac"#;

fn numbered(backend: &Backend, instance: ClientInstance) -> Asker {
    Asker { client: ClientFacts { instance, ..client(ALL) }, ..Asker::new(backend, None) }
}

#[tokio::test]
async fn clients_of_one_name_at_one_address_are_told_apart_by_their_numbers() {
    let backend = isolated(shell(STATEFUL), None, settings());
    let (a, b) =
        (numbered(&backend, ClientInstance::Number(1)), numbered(&backend, ClientInstance::Number(2)));
    for expected in [r#"{"n":1}"#, r#"{"n":2}"#] {
        assert_eq!((a.count().await, b.count().await), (expected.to_owned(), expected.to_owned()));
    }
    // A call that could be of either shares nothing.
    let either = numbered(&backend, ClientInstance::Unknown);
    assert_eq!(
        (either.count().await, either.count().await),
        (r#"{"n":1}"#.to_owned(), r#"{"n":1}"#.to_owned())
    );
    let (call, mut events) = either.start("ask");
    question(&mut events).await.answer.send(RpcOutcome::result(&raw(r#"{"action":"decline"}"#))).unwrap();
    assert!(call.await.unwrap().unwrap().contains("decline"), "its own question reaches it");
    eventually("the end of its processes", || (backend.status().sessions == 2).then_some(())).await;
    backend.end_instance(1);
    assert_eq!(backend.status().sessions, 1);
    backend.stop().await;
}

#[tokio::test]
async fn a_question_that_could_be_for_several_clients_is_refused() {
    let backend = isolated(shell(STATEFUL), Some(Isolation::Principal), settings());
    let (a, b) = (Asker::new(&backend, Some(SESSION)), Asker::new(&backend, Some(OTHER)));
    let (waiting, _events) = a.start("wait");
    let (call, mut events) = b.start("ask");
    let answered = call.await.unwrap().unwrap();
    assert!(answered.contains("belongs to no call of a single client"), "{answered}");
    assert!(events.recv().await.is_none());
    waiting.abort();
    backend.stop().await;
}

/// Starts a call that logs `text`; returns its answer and the log messages that came with it.
fn logging(asker: &Asker, text: &str) -> tokio::task::JoinHandle<Vec<String>> {
    let params = params_of(&format!(r#"{{"name":"echo","arguments":{{"text":"{text}"}}}}"#));
    let (events, mut heard) = event_queue(16);
    let Asker { backend, session, principal, client } = asker;
    let (backend, session, principal) = (backend.clone(), *session, *principal);
    let client = ClientFacts { log_level: Some("debug".into()), ..client.clone() };
    tokio::spawn(async move {
        let request = vmcp_backend::Request {
            session,
            principal,
            client,
            events: Some(events),
            ..vmcp_backend::Request::new("tools/call", &params)
        };
        result(&backend.request(request).await.unwrap());
        drain(&mut heard).await
    })
}

async fn drain(heard: &mut EventReceiver) -> Vec<String> {
    let mut texts = Vec::new();
    while let Some(event) = heard.recv().await {
        let Event::Notification(message) = event else { continue };
        let message: Value = serde_json::from_str(message.get()).unwrap();
        texts.push(message["params"]["data"].as_str().unwrap().to_owned());
    }
    texts
}

#[tokio::test]
async fn log_messages_of_a_modern_program_reach_the_client_that_caused_them_and_no_other() {
    for declared in [true, false] {
        let program = if declared { LOGGING.to_owned() } else { LOGGING.replace(r#","logging":{}"#, "") };
        check_logs_of(&program).await;
    }
}

async fn check_logs_of(program: &str) {
    let backend = isolated(shell(program), None, settings());
    wait_for_definitions(&backend, |found| found.tools.len() == 1).await;
    let of = |instance| numbered(&backend, instance);
    let (ann, bob) = (of(ClientInstance::Number(1)), of(ClientInstance::Number(2)));
    let other = Asker { principal: Principal::Address([10, 0, 0, 2].into()), ..of(ClientInstance::Only) };
    let (first, second) = (logging(&ann, "one"), logging(&ann, "two"));
    let (by_bob, by_other) = (logging(&bob, "bob"), logging(&other, "other"));
    for call in [first, second] {
        let heard = call.await.unwrap();
        assert!(heard.contains(&"one".to_owned()) || heard.contains(&"two".to_owned()), "{heard:?}");
        assert!(!heard.iter().any(|text| text.contains("bob") || text.contains("other")), "{heard:?}");
    }
    assert_eq!(by_bob.await.unwrap(), ["bob"]);
    assert_eq!(by_other.await.unwrap(), ["other"]);
    // A message that a call leaves behind comes on no call of another client.
    assert_eq!(logging(&bob, "again").await.unwrap().iter().filter(|text| text.contains("ann")).count(), 0);
    let unknown = of(ClientInstance::Unknown);
    logging(&ann, "left").await.unwrap();
    assert_eq!(logging(&unknown, "own").await.unwrap(), ["own"]);
    // A client with a session has a process of its own as well.
    let session = Asker { session: Some(SESSION), ..of(ClientInstance::Only) };
    assert_eq!(logging(&session, "session").await.unwrap(), ["session"]);
    backend.stop().await;
}

/// The stateful program, which cannot run while another process of it holds the folder `lock`.
fn sole(lock: &std::path::Path, second: &str) -> Transport {
    let Transport::Stdio { command, args, env, cwd, inherit_env, idle_timeout } = shell(STATEFUL) else {
        panic!("a program");
    };
    let script = format!("mkdir '{}' 2>/dev/null || {{ {second}; }}\n{}", lock.display(), args[1]);
    Transport::Stdio { command, args: vec![args[0].clone(), script], env, cwd, inherit_env, idle_timeout }
}

#[tokio::test]
async fn a_program_that_may_run_once_serves_all_clients_and_the_status_says_so() {
    for second in ["echo 'Error: listen EADDRINUSE 127.0.0.1:8765' >&2; exit 1", "exit 4"] {
        let folder = tempfile::tempdir().unwrap();
        let backend = isolated(sole(&folder.path().join("lock"), second), None, settings());
        wait_for_definitions(&backend, |found| found.tools.len() == 1).await;
        let (a, b) = (Asker::new(&backend, Some(SESSION)), Asker::new(&backend, Some(OTHER)));
        assert_eq!((a.count().await, b.count().await), (r#"{"n":1}"#.to_owned(), r#"{"n":2}"#.to_owned()));
        let status = backend.status();
        assert!(status.advice.iter().any(|advice| advice.contains("isolation: shared")), "{status:?}");
        assert_eq!(status.sessions, 0);
        backend.stop().await;
    }
}

#[tokio::test]
async fn a_program_that_fails_once_or_with_one_client_only_is_not_shared() {
    let folder = tempfile::tempdir().unwrap();
    let once = folder.path().join("once");
    let fails_once = format!("mkdir '{}' 2>/dev/null && exit 4", once.display());
    let backend = isolated(sole(&folder.path().join("lock"), &fails_once), None, settings());
    wait_for_definitions(&backend, |found| found.tools.len() == 1).await;
    let (a, b) = (Asker::new(&backend, Some(SESSION)), Asker::new(&backend, Some(OTHER)));
    assert_eq!((a.count().await, b.count().await), (r#"{"n":1}"#.to_owned(), r#"{"n":1}"#.to_owned()));
    assert_eq!(backend.status().advice, [] as [&str; 0]);
    backend.stop().await;
}

#[tokio::test]
async fn a_server_that_works_with_its_clients_roots_has_time_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("roots.$$");
    let file = file.display();
    let slow = format!(
        r#"
    case $method in
      initialize) reply "$initialized";;
      server/discover) refuse;;
      tools/list) reply "$tools";;
      ping) reply '{{}}';;
      notifications/initialized) echo '{{"jsonrpc":"2.0","id":"r1","method":"roots/list"}}';;
      tools/call) reply "{{\"roots\":$(cat "{file}" 2>/dev/null || echo 0)}}";;
      *) case $line in *'"r1"'*) (sleep 0.05; echo "$line" > "{file}") & ;; esac;;
    esac"#
    );
    let backend = isolated(shell(&slow), None, settings());
    let (call, mut events) = Asker::new(&backend, Some(SESSION)).start("read");
    let roots = raw(r#"{"roots":[{"uri":"file:///ann"}]}"#);
    question(&mut events).await.answer.send(RpcOutcome::result(&roots)).unwrap();
    let result = tokio::time::timeout(Duration::from_secs(20), call).await.unwrap().unwrap().unwrap();
    assert!(result.contains("file:///ann"), "{result}");
    backend.stop().await;
}
