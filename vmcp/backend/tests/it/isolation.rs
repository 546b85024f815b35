//! Isolation: whose process it is, and who gets what belongs to no call.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use vmcp_backend::{
    Backend, BackendSettings, ClientFacts, Event, EventReceiver, Principal, Question, Request, RpcOutcome,
    SessionId, event_queue,
};
use vmcp_config::{Isolation, Transport};
use vmcp_wire::era::Era;

use crate::processes::shell;
use crate::support::scripts::{echo, modern};
use crate::support::server::{Reply, Server};
use crate::support::{
    Mailbox, PATIENCE, SESSION, client, eventually, params_of, raw, result, settings, spec,
    wait_for_definitions,
};

pub(crate) const OTHER: SessionId = [8; 16];
pub(crate) const ALL: &str = r#"{"elicitation":{},"roots":{}}"#;

/// A legacy program: `count` counts its calls; `ask` asks in the call; `late` asks and logs 0.2 s after it;
/// `crash` exits.
pub(crate) const STATEFUL: &str = r#"
    ask() { printf '{"jsonrpc":"2.0","id":"%s","method":"elicitation/create","params":{"message":"%s"}}\n' "$1" "$1"; }
    case $method in
      initialize) reply "$initialized"; declared=$line;;
      tools/list) reply "$tools";;
      server/discover) refuse;;
      ping) reply '{}';;
      tools/call) case $line in
        *'"count"'*) n=$((n + 1)); reply "{\"n\":$n}";;
        *'"whoami"'*) reply "{\"declared\":${declared%\}*}}}";;
        *'"ask"'*) waiting=$id; ask q1;;
        *'"late"'*) reply '{}'; (sleep 0.2; ask late
          printf '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"late"}}\n') & ;;
        *'"wait"'*) ;;
        *'"chatty"'*) for n in 1 2 3 4 5; do sleep 0.5
          printf '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%s"}}\n' "$n"
          done; reply '{"ok":1}';;
        *'"crash"'*) exit 3;;
      esac;;
      *) case $line in *'"q1"'*) id=$waiting; reply "{\"answered\":$line}";; esac;;
    esac"#;

pub(crate) struct Asker {
    pub(crate) backend: Backend,
    pub(crate) session: Option<SessionId>,
    pub(crate) principal: Principal,
    pub(crate) client: ClientFacts,
}

impl Asker {
    pub(crate) fn new(backend: &Backend, session: Option<SessionId>) -> Self {
        let principal = Principal::Address([10, 0, 0, 1].into());
        Self { backend: backend.clone(), session, principal, client: client(ALL) }
    }

    pub(crate) fn start(
        &self,
        tool: &str,
    ) -> (tokio::task::JoinHandle<Result<String, String>>, EventReceiver) {
        let (events, receiver) = event_queue(16);
        let params = params_of(&format!(r#"{{"name":"{tool}"}}"#));
        let Self { backend, session, principal, client } = self;
        let (backend, session, principal, client) = (backend.clone(), *session, *principal, client.clone());
        let call = tokio::spawn(async move {
            let events = Some(events);
            let request =
                Request { session, principal, client, events, ..Request::new("tools/call", &params) };
            let response = backend.request(request).await.map_err(|error| error.to_string())?;
            Ok(result(&response).to_owned())
        });
        (call, receiver)
    }

    pub(crate) async fn call(&self, tool: &str) -> Result<String, String> {
        self.start(tool).0.await.unwrap()
    }

    pub(crate) async fn count(&self) -> String {
        self.call("count").await.unwrap()
    }
}

pub(crate) async fn question(events: &mut EventReceiver) -> Question {
    let event = tokio::time::timeout(PATIENCE, events.recv()).await.expect("an event in time");
    let Some(Event::Question(question)) = event else { panic!("no question: {event:?}") };
    question
}

pub(crate) fn isolated(
    transport: Transport,
    isolation: Option<Isolation>,
    settings: BackendSettings,
) -> Backend {
    let spec = vmcp_config::Backend { isolation, ..spec("b", transport) };
    Backend::start(spec, settings, None)
}

#[tokio::test]
async fn each_client_session_has_a_process_of_its_own_by_default() {
    let mailbox = Mailbox::default();
    let settings = BackendSettings { downstream: Arc::new(mailbox.clone()), ..settings() };
    let backend = isolated(shell(STATEFUL), None, settings);
    let (a, b) = (Asker::new(&backend, Some(SESSION)), Asker::new(&backend, Some(OTHER)));
    for expected in [r#"{"n":1}"#, r#"{"n":2}"#] {
        assert_eq!(a.count().await, expected);
        assert_eq!(b.count().await, expected);
    }
    assert!(a.call("whoami").await.unwrap().contains("the-client"), "introduced as the client");
    assert_eq!(backend.status().sessions, 2);

    // Both ask at once, and each is answered by its own client.
    let ((call_a, mut events_a), (call_b, mut events_b)) = (a.start("ask"), b.start("ask"));
    for (events, name) in [(&mut events_b, "bob"), (&mut events_a, "ann")] {
        let answer = raw(&format!(r#"{{"action":"accept","content":{{"name":"{name}"}}}}"#));
        question(events).await.answer.send(RpcOutcome::result(&answer)).unwrap();
    }
    assert!(call_a.await.unwrap().unwrap().contains("ann"));
    assert!(call_b.await.unwrap().unwrap().contains("bob"));

    // A message that comes after a call is the session's, though another client has a call under way.
    let (_waiting, mut events_b) = b.start("wait");
    a.call("late").await.unwrap();
    let mail = eventually("the late messages", || Some(mailbox.all()).filter(|all| all.len() == 2)).await;
    assert!(mail.iter().all(|(session, _)| *session == Some(SESSION)), "{mail:?}");
    assert!(events_b.try_recv().is_none(), "B hears nothing of it");

    // A process that crashes is its own client's affair.
    assert!(a.call("crash").await.is_err());
    assert_eq!((a.count().await, b.count().await), (r#"{"n":1}"#.to_owned(), r#"{"n":3}"#.to_owned()));
    assert_eq!(backend.status().restarts, 0, "the main process lives on");
    backend.end_session(SESSION);
    assert_eq!(backend.status().sessions, 1);
    backend.stop().await;
}

#[tokio::test]
async fn log_messages_of_a_process_keep_its_clients_call_alive() {
    let backend = isolated(shell(STATEFUL), None, settings());
    let params = params_of(r#"{"name":"chatty"}"#);
    let (events, mut heard) = event_queue(16);
    let request = Request {
        session: Some(SESSION),
        client: client(ALL),
        events: Some(events),
        deadline: Duration::from_millis(1500),
        ..Request::new("tools/call", &params)
    };
    let response = backend.request(request).await.expect("it takes 2.5 s");
    assert_eq!(result(&response), r#"{"ok":1}"#);
    let mut lines = 0;
    while heard.recv().await.is_some() {
        lines += 1;
    }
    assert_eq!(lines, 5);
    backend.stop().await;
}

#[tokio::test]
async fn a_client_that_crashes_its_process_does_not_open_the_circuit_for_others() {
    let backend = isolated(shell(STATEFUL), None, settings());
    let (a, b) = (Asker::new(&backend, Some(SESSION)), Asker::new(&backend, Some(OTHER)));
    for _ in 0..10 {
        assert!(a.call("crash").await.is_err());
    }
    assert_eq!(b.count().await, r#"{"n":1}"#);
    backend.stop().await;
}

#[tokio::test]
async fn a_shared_process_is_one_for_all_and_asks_nobody() {
    let backend = isolated(shell(STATEFUL), Some(Isolation::Shared), settings());
    let (a, b) = (Asker::new(&backend, Some(SESSION)), Asker::new(&backend, Some(OTHER)));
    assert_eq!((a.count().await, b.count().await), (r#"{"n":1}"#.to_owned(), r#"{"n":2}"#.to_owned()));
    assert!(!a.call("whoami").await.unwrap().contains("elicitation"), "nothing is declared");
    let (call, mut events) = a.start("ask");
    let answered = call.await.unwrap().unwrap();
    assert!(answered.contains("belongs to no call"), "{answered}");
    assert!(events.recv().await.is_none());
    backend.stop().await;
}

#[tokio::test]
async fn clients_without_a_session_have_the_process_of_their_principal() {
    let backend = isolated(shell(STATEFUL), None, settings());
    let a = Asker::new(&backend, None);
    let b = Asker { principal: Principal::Address([10, 0, 0, 2].into()), ..Asker::new(&backend, None) };
    let info = Some(raw(r#"{"name":"another program"}"#).into());
    let c = Asker { client: ClientFacts { info, ..client(ALL) }, ..Asker::new(&backend, None) };
    for asker in [&a, &b, &c] {
        assert_eq!(asker.count().await, r#"{"n":1}"#);
    }
    assert_eq!(a.count().await, r#"{"n":2}"#, "state lasts");
    // Two calls of one client: the latest is asked.
    let (waiting, _events) = a.start("wait");
    let (call, mut events) = a.start("ask");
    question(&mut events).await.answer.send(RpcOutcome::result(&raw(r#"{"action":"decline"}"#))).unwrap();
    assert!(call.await.unwrap().unwrap().contains("decline"));
    waiting.abort();
    backend.stop().await;

    // Said outright, `session` means a process for each of their calls.
    let backend = isolated(shell(STATEFUL), Some(Isolation::Session), settings());
    let a = Asker::new(&backend, None);
    assert_eq!((a.count().await, a.count().await), (r#"{"n":1}"#.to_owned(), r#"{"n":1}"#.to_owned()));
    eventually("the end of both", || (backend.status().sessions == 0).then_some(())).await;
    backend.stop().await;

    let backend = isolated(shell(STATEFUL), Some(Isolation::Principal), settings());
    let (a, b) = (Asker::new(&backend, Some(SESSION)), Asker::new(&backend, Some(OTHER)));
    let c =
        Asker { principal: Principal::Address([10, 0, 0, 2].into()), ..Asker::new(&backend, Some([9; 16])) };
    assert_eq!((a.count().await, b.count().await), (r#"{"n":1}"#.to_owned(), r#"{"n":2}"#.to_owned()));
    assert_eq!(c.count().await, r#"{"n":1}"#);
    backend.stop().await;
}

#[tokio::test]
async fn processes_are_limited_for_all_and_for_one_principal() {
    let spec = vmcp_config::Backend { max_sessions: Some(4), ..spec("b", shell(STATEFUL)) };
    let backend = Backend::start(spec, settings(), None);
    let asker = |host: u8, session: u8| Asker {
        principal: Principal::Address([10, 0, 0, host].into()),
        ..Asker::new(&backend, Some([session; 16]))
    };
    // Half of them are one principal's; when all of its own are busy, it has to wait.
    let busy = [asker(1, 1).start("wait"), asker(1, 2).start("wait")];
    eventually("two processes", || (backend.status().sessions == 2).then_some(())).await;
    let refused = asker(1, 3).call("count").await.unwrap_err();
    assert!(refused.contains("2 sessions"), "{refused}");
    for session in [4, 5, 6] {
        assert_eq!(asker(2, session).count().await, r#"{"n":1}"#, "the idle one makes room");
    }
    assert_eq!(backend.status().sessions, 4);
    assert_eq!(asker(2, 4).count().await, r#"{"n":1}"#, "it was the idle one");
    for (call, _) in busy {
        call.abort();
    }
    backend.stop().await;
}

#[tokio::test]
async fn a_process_is_ready_for_the_next_session_while_sessions_follow_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("started");
    let handler = format!(
        "[ -n \"$known\" ] || {{ known=1; echo $$ >> '{}.introduced'; }}\n{STATEFUL}",
        started.display()
    );
    let Transport::Stdio { command, args, env, .. } = shell(&handler) else { panic!("a program") };
    let args = vec![args[0].clone(), format!("echo $$ >> '{}'\n{}", started.display(), args[1])];
    let transport =
        Transport::Stdio { command, args, env, cwd: None, inherit_env: Vec::new(), idle_timeout: None };
    let spec = vmcp_config::Backend { warm_sessions: 1, ..spec("b", transport) };
    let backend = Backend::start(spec, settings(), None);
    let lines = |suffix: &str| {
        let path = format!("{}{suffix}", started.display());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    let count = async |session: u8| Asker::new(&backend, Some([session; 16])).count().await;
    assert_eq!(count(1).await, r#"{"n":1}"#);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(lines("").len(), 2, "one client has no process to spare");
    assert_eq!(count(2).await, r#"{"n":1}"#);
    // The main process, those of two clients, and an unused one.
    let all = eventually("a process to spare", || Some(lines("")).filter(|all| all.len() == 4)).await;
    assert!(!lines(".introduced").contains(&all[3]));
    assert_eq!(count(3).await, r#"{"n":1}"#);
    assert_eq!(lines(".introduced").last(), Some(&all[3]), "the next session has it");
    let spare = eventually("another", || lines("").get(4).cloned()).await;
    assert_eq!(backend.status().sessions, 3);
    backend.stop().await;
    let is_running = |pid: &str| std::path::Path::new(&format!("/proc/{pid}/cwd")).read_link().is_ok();
    eventually("its end", || (!is_running(&spare)).then_some(())).await;
}

#[tokio::test]
async fn a_server_that_asks_for_roots_first_has_them_before_the_call() {
    let asks_first = r#"
    case $method in
      initialize) reply "$initialized";;
      server/discover) refuse;;
      tools/list) reply "$tools";;
      ping) reply '{}';;
      notifications/initialized) echo '{"jsonrpc":"2.0","id":"r1","method":"roots/list"}';;
      tools/call) reply "{\"roots\":${roots:-0}}";;
      *) case $line in *'"r1"'*) roots=$line;; esac;;
    esac"#;
    let backend = isolated(shell(asks_first), None, settings());
    for (session, uri) in [(SESSION, "file:///ann"), (OTHER, "file:///bob")] {
        let (call, mut events) = Asker::new(&backend, Some(session)).start("read");
        let asked = question(&mut events).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!call.is_finished(), "it waits for the answer");
        let roots = raw(&format!(r#"{{"roots":[{{"uri":"{uri}"}}]}}"#));
        asked.answer.send(RpcOutcome::result(&roots)).unwrap();
        let result = call.await.unwrap().unwrap();
        assert!(result.contains(uri), "{result}");
    }
    backend.stop().await;
}

#[tokio::test]
async fn an_idle_process_is_stopped() {
    let settings = BackendSettings { session_idle: Duration::from_millis(300), ..settings() };
    let backend = isolated(shell(STATEFUL), None, settings);
    let a = Asker::new(&backend, Some(SESSION));
    a.count().await;
    eventually("its end", || (backend.status().sessions == 0).then_some(())).await;
    assert_eq!(a.count().await, r#"{"n":1}"#);
    backend.stop().await;
}

/// A server of both eras, with session ids in the legacy one.
async fn dual() -> Server {
    dual_listening(|_| Reply::Status(405, String::new())).await
}

/// A server of both eras whose GET stream in the legacy one is `stream`.
pub(crate) async fn dual_listening(
    stream: impl Fn(&crate::support::server::SeenRequest) -> Reply + Send + Sync + 'static,
) -> Server {
    let legacy = crate::support::scripts::stateful(move |seen| match seen.http.as_str() {
        "GET" => stream(seen),
        _ => Reply::Json(seen.answer(r#"{"era":"legacy"}"#)),
    });
    let modern = modern(|seen| Reply::Json(seen.answer(r#"{"resultType":"complete","era":"modern"}"#)));
    Server::start(move |seen| {
        let is_modern = seen.header("mcp-protocol-version") == Some("2026-07-28");
        if is_modern { modern(seen) } else { legacy(seen) }
    })
    .await
}

#[tokio::test]
async fn the_era_follows_the_client() {
    let server = dual().await;
    let backend = isolated(server.transport(), None, settings());
    wait_for_definitions(&backend, |found| found.tools.len() == 1).await;
    for (session, era, expected) in [
        (Some(SESSION), Era::Legacy, json!({"era": "legacy"})),
        (None, Era::Modern, json!({"era": "modern", "resultType": "complete"})),
        (Some(OTHER), Era::Legacy, json!({"era": "legacy"})),
    ] {
        let params = params_of(r#"{"name":"echo"}"#);
        let request = Request { session, client: client(ALL), ..Request::new("tools/call", &params) };
        let response = backend.request(request).await.unwrap();
        assert_eq!((response.era, crate::support::json(result(&response))), (era, expected));
    }
    let opened = server.asked("initialize");
    assert_eq!(opened.len(), 2, "one for each session, none for vmcp itself");
    assert_eq!(opened[0].body["params"]["clientInfo"]["name"], "the-client");
    backend.stop().await;

    for (protocol_era, isolation, expected) in [
        (vmcp_config::ProtocolEra::Modern, None, Era::Modern),
        (vmcp_config::ProtocolEra::Legacy, None, Era::Legacy),
        (vmcp_config::ProtocolEra::Auto, Some(Isolation::Shared), Era::Modern),
    ] {
        let spec = vmcp_config::Backend { protocol_era, isolation, ..spec("b", server.transport()) };
        let backend = Backend::start(spec, settings(), None);
        for session in [Some(SESSION), None] {
            let params = params_of(r#"{"name":"echo"}"#);
            let request = Request { session, client: client(ALL), ..Request::new("tools/call", &params) };
            assert_eq!(backend.request(request).await.unwrap().era, expected, "{protocol_era:?}");
        }
        backend.stop().await;
    }
}

#[tokio::test]
async fn a_server_that_speaks_one_era_is_asked_for_the_other_once() {
    let server = Server::start(modern(echo)).await;
    let backend = isolated(server.transport(), None, settings());
    for session in [SESSION, OTHER, SESSION] {
        Asker::new(&backend, Some(session)).call("echo").await.unwrap();
    }
    assert_eq!(server.asked("initialize").len(), 1);
    assert_eq!(backend.status().sessions, 0);
    backend.stop().await;
    let legacy = Server::start(crate::support::scripts::legacy(echo)).await;
    let protocol_era = vmcp_config::ProtocolEra::Modern;
    let spec = vmcp_config::Backend { protocol_era, ..spec("b", legacy.transport()) };
    let backend = Backend::start(spec, BackendSettings { max_connection_retries: 0, ..settings() }, None);
    assert!(Asker::new(&backend, None).call("echo").await.is_err());
    assert!(backend.status().last_error.unwrap().contains("protocolEra"));
    backend.stop().await;
}
