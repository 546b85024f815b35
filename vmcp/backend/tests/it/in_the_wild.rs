//! Servers as they are found: odd answers and streams, refused revisions, noise on standard output. The
//! answer is understood where its meaning is plain, else the error shows what came.

use std::time::{Duration, Instant};

use serde_json::json;
use vmcp_backend::{Backend, BackendSettings, BackendState, CallError, RpcOutcome};
use vmcp_config::{Headers, Transport};
use vmcp_wire::era::Era;

use crate::processes::{legacy as shell_legacy, shell};
use crate::support::scripts::{initialized, legacy};
use crate::support::server::{Reply, SeenRequest, Server, event};
use crate::support::{call, result, settings, spec, wait_for_state};

const OK: &str = r#"{"content":[]}"#;

/// Calls a legacy server that answers each call by `answer`.
async fn ask(
    answer: impl Fn(&SeenRequest) -> Reply + Send + Sync + 'static,
) -> Result<RpcOutcome, CallError> {
    // Only calls are answered in an odd way: a ping that is refused alike would mean a lost session.
    let server = Server::start(legacy(move |seen| match seen.method() {
        "ping" => Reply::Json(seen.answer(json!({}))),
        _ => answer(seen),
    }));
    let server = server.await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    let answer = call(&backend, "echo").await;
    backend.stop().await;
    answer.map(|response| response.outcome)
}

#[tokio::test]
async fn events_that_are_no_messages_do_not_cost_the_answer() {
    let forms: [fn(String) -> String; 10] = [
        |message| format!("event: ping\ndata: ping\n\n{message}"),
        |message| format!("event: ping\ndata: 2026-11-26T10:00:00Z\n\n{message}"),
        |message| format!("event: heartbeat\ndata: {{}}\n\n{message}"),
        |message| format!("data: {{\"type\":\"heartbeat\"}}\n\ndata: [START]\n\n{message}"),
        |message| format!("event: open\ndata: connected\n\nevent: endpoint\ndata: /mcp?s=1\n\n{message}"),
        |message| format!("data: \n\ndata: null\n\ndata: 1\n\n{message}"),
        |message| format!("data: {{\"jsonrpc\":\"2.0\",\"id\":99999,\"result\":{{}}}}\n\n{message}"),
        |message| message.replace("data: {", "data: [{").replace("}}\n", "}}]\n"),
        |message| message.replace(r#""jsonrpc":"2.0","#, ""),
        |message| format!("{message}data: [DONE]\n\n"),
    ];
    for form in forms {
        let answer = move |seen: &SeenRequest| Reply::Pieces(vec![form(event(&seen.answer(OK)))]);
        let answer = ask(answer).await.unwrap();
        assert!(matches!(&answer, RpcOutcome::Result(result) if result.get() == OK), "{answer:?}");
    }
}

#[tokio::test]
async fn a_stream_that_ends_without_an_answer_says_what_it_brought() {
    let error = ask(|_| Reply::Pieces(vec!["event: error\ndata: quota of team 7 is used up\n\n".to_owned()]));
    let error = error.await.unwrap_err();
    assert!(!error.to_string().contains("quota"), "not for each client: {error}");
    assert!(error.detailed().contains("quota of team 7"), "{}", error.detailed());
}

#[tokio::test]
async fn answers_that_are_almost_json_rpc_are_understood() {
    let forms: [fn(u64) -> String; 9] = [
        |id| json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}, "error": null}).to_string(),
        |id| json!({"id": id, "result": {"content": []}}).to_string(),
        |id| json!({"jsonrpc": 2.0, "id": id, "result": {"content": []}}).to_string(),
        |id| json!({"jsonrpc": "2.0", "id": id.to_string(), "result": {"content": []}}).to_string(),
        |id| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id}.0,\"result\":{OK}}}"),
        |id| format!("\u{feff}{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{OK}}}"),
        |_| format!("{{\"jsonrpc\":\"2.0\",\"result\":{OK}}}"),
        |id| format!("[{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{OK}}}]"),
        |id| {
            let note = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info"}}"#;
            format!("[{note},{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{OK}}}]")
        },
    ];
    for form in forms {
        let answer = ask(move |seen| Reply::Json(form(seen.id()))).await.unwrap();
        assert!(matches!(&answer, RpcOutcome::Result(result) if result.get() == OK), "{answer:?}");
    }
    let errors: [fn(u64) -> String; 5] = [
        |id| {
            json!({"jsonrpc": "2.0", "id": id, "result": null, "error": {"code": 1, "message": "signal"}})
                .to_string()
        },
        |id| json!({"jsonrpc": "2.0", "id": id, "error": "signal"}).to_string(),
        |id| json!({"jsonrpc": "2.0", "id": id, "error": {"code": "E42", "message": "signal"}}).to_string(),
        |id| json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "data": "signal"}}).to_string(),
        |_| json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "signal"}}).to_string(),
    ];
    for form in errors {
        let answer = ask(move |seen| Reply::Json(form(seen.id()))).await.unwrap();
        let RpcOutcome::Error(error) = &answer else { panic!("{answer:?}") };
        let error: serde_json::Value = serde_json::from_str(error.get()).unwrap();
        assert!(error["code"].is_i64() && error["message"] == "signal", "{error}");
    }
}

#[tokio::test]
async fn an_answer_that_is_not_understood_is_shown() {
    let forms: [fn(u64) -> (u16, String); 9] = [
        |_| (200, "signal happened".to_owned()),
        |_| (200, "<!doctype html><title>signal</title><p>sign in".to_owned()),
        |_| (200, json!({"content": [{"type": "text", "text": "signal"}]}).to_string()),
        |id| (200, json!({"jsonrpc": "2.0", "id": id, "result": "signal"}).to_string()),
        |id| (200, json!({"jsonrpc": "2.0", "id": id + 1000, "result": {"a": "signal"}}).to_string()),
        |_| (502, "<html><head><title>signal</title></head></html>".to_owned()),
        |_| (422, json!({"detail": [{"loc": ["body"], "msg": "signal"}]}).to_string()),
        |_| (403, "signal: your address is not allowed".to_owned()),
        |_| (400, json!({"message": "signal", "__type": "ValidationException"}).to_string()),
    ];
    for form in forms {
        let error = ask(move |seen| {
            let (status, body) = form(seen.id());
            Reply::Status(status, body)
        });
        let mut error = error.await.unwrap_err();
        assert!(!error.to_string().contains("signal"), "not for each client: {error}");
        assert!(error.show_detail(200) && error.to_string().contains("signal"), "{error}");
    }
}

#[tokio::test]
async fn an_http_error_is_quoted_in_the_status_without_the_credentials_that_it_repeats() {
    let answer = |seen: &SeenRequest| match seen.method() {
        "tools/call" => Reply::Status(
            402,
            format!("no quota for {}; ask billing", seen.header("authorization").unwrap_or_default()),
        ),
        _ => legacy(|_| Reply::Hang)(seen),
    };
    let server = Server::start(answer).await;
    let url = format!("http://{}/mcp", server.address()).parse().unwrap();
    let headers = Headers::from([("authorization".to_owned(), "Bearer s3cr3t-k3y".into())]);
    let backend = Backend::start(spec("b", Transport::Http { url, headers }), settings(), None);
    let error = call(&backend, "echo").await.unwrap_err();
    for text in [error.detailed(), backend.status().last_error.unwrap()] {
        assert!(text.contains("HTTP status 402: no quota for ***; ask billing"), "{text}");
        assert!(!text.contains("s3cr3t"), "{text}");
    }
    backend.stop().await;
}

#[tokio::test]
async fn a_server_that_refuses_the_newest_revision_is_asked_with_an_older_one() {
    const NAMED: &str = "Unsupported protocol version (supported versions: 2025-03-26, 2024-11-05)";
    let refusals: [fn(&SeenRequest) -> Reply; 5] = [
        |_| Reply::Status(400, NAMED.to_owned()),
        |seen| Reply::Json(seen.error(-32602)),
        |_| {
            Reply::Status(
                400,
                json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": NAMED}})
                    .to_string(),
            )
        },
        |seen| {
            let data = json!({"supported": ["2024-11-05", "2025-03-26"]});
            let error = json!({"code": -32602, "message": "Invalid protocol version", "data": data});
            Reply::Json(json!({"jsonrpc": "2.0", "id": seen.id(), "error": error}).to_string())
        },
        |_| Reply::Status(500, "KeyError: '2025-11-25'".to_owned()),
    ];
    for refuse in refusals {
        let answer = move |seen: &SeenRequest| match (
            seen.method(),
            seen.body["params"]["protocolVersion"].as_str(),
        ) {
            ("initialize", Some(revision @ ("2025-03-26" | "2024-11-05"))) => {
                Reply::Json(seen.answer(json!({"protocolVersion": revision, "capabilities": {"tools": {}}})))
            }
            ("initialize", _) => refuse(seen),
            ("tools/call", _) => Reply::Json(seen.answer(OK)),
            _ => legacy(|_| Reply::Hang)(seen),
        };
        let server = Server::start(answer).await;
        let backend = Backend::start(spec("b", server.transport()), settings(), None);
        assert_eq!(result(&call(&backend, "echo").await.unwrap()), OK);
        assert_eq!(backend.status().revision.as_deref(), Some("2025-03-26"));
        assert!(server.asked("initialize").len() <= 3);
        backend.stop().await;
    }
}

type AnswerOf = fn(&SeenRequest) -> Reply;

#[tokio::test]
async fn a_refused_introduction_is_quoted_in_the_status() {
    let refusal = |seen: &SeenRequest| {
        let error = json!({"code": -32001, "message": "API key NOTES_KEY is missing; set it and restart"});
        Reply::Json(json!({"jsonrpc": "2.0", "id": seen.id(), "error": error}).to_string())
    };
    let odd = |seen: &SeenRequest| {
        Reply::Json(seen.answer(json!({"protocolVersion": 20_250_618, "capabilities": {}})))
    };
    let unknown = |seen: &SeenRequest| {
        Reply::Json(seen.answer(json!({"protocolVersion": "2024-10-07", "capabilities": {}})))
    };
    let page = |_: &SeenRequest| Reply::Status(403, "<h1>Invalid Host header</h1>".to_owned());
    let answers: [(&str, AnswerOf); 4] =
        [("NOTES_KEY", refusal), ("20250618", odd), ("2024-10-07", unknown), ("Invalid Host header", page)];
    for (words, answer) in answers {
        let answer = move |seen: &SeenRequest| match seen.method() {
            "initialize" => answer(seen),
            _ => Reply::Status(400, "no session".to_owned()),
        };
        let server = Server::start(answer).await;
        let settings = BackendSettings { max_connection_retries: 0, ..settings() };
        let backend = Backend::start(spec("b", server.transport()), settings, None);
        let error = wait_for_state(&backend, BackendState::Failed).await.last_error.unwrap();
        assert!(error.contains(words), "{error}");
        let error = call(&backend, "echo").await.unwrap_err();
        assert!(!error.to_string().contains(words), "not for each client: {error}");
        backend.stop().await;
    }
}

#[tokio::test]
async fn a_session_of_a_refused_introduction_is_not_kept() {
    let answer = |seen: &SeenRequest| match (seen.method(), seen.body["params"]["protocolVersion"].as_str()) {
        ("initialize", Some("2025-11-25")) => {
            Reply::With(&[("mcp-session-id", "refused")], seen.error(-32602))
        }
        ("initialize", _) => Reply::With(&[("mcp-session-id", "s2")], seen.answer(initialized())),
        ("tools/call", _) => Reply::Json(seen.answer(json!({"session": seen.header("mcp-session-id")}))),
        _ => legacy(|_| Reply::Hang)(seen),
    };
    let server = Server::start(answer).await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    assert_eq!(result(&call(&backend, "echo").await.unwrap()), r#"{"session":"s2"}"#);
    backend.stop().await;
}

#[tokio::test]
async fn a_program_may_write_more_than_one_message_a_line() {
    let pretty =
        r#"printf '{\n  "jsonrpc": "2.0",\n  "id": %s,\n  "result": {\n    "content":[]\n  }\n}\n' "$id""#;
    for answer in [
        r#"printf '\357\273\277'; reply '{"content":[]}'"#,
        r#"printf '\033[2J\033[31m'; reply '{"content":[]}'"#,
        r#"printf 'ready> '; reply '{"content":[]}'"#,
        r#"echo '{"jsonrpc":"2.0","id":"'$id'","result":{"content":[]}}'"#,
        r#"echo '[{"jsonrpc":"2.0","id":'$id',"result":{"content":[]}}]'"#,
        pretty,
    ] {
        let backend = Backend::start(spec("b", shell(&shell_legacy(answer))), settings(), None);
        let answered = call(&backend, "echo").await.unwrap();
        let answered: serde_json::Value = serde_json::from_str(result(&answered)).unwrap();
        assert_eq!(answered, json!({"content": []}), "{answer}");
        backend.stop().await;
    }
}

#[tokio::test]
async fn a_program_whose_answer_is_unreadable_is_quoted() {
    let unreadable = r#"echo '{"jsonrpc":"2.0","id":'$id',"result":"no such note"}'"#;
    let backend = Backend::start(spec("b", shell(&shell_legacy(unreadable))), settings(), None);
    let started = Instant::now();
    let error = call(&backend, "echo").await.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(20), "not by the deadline");
    assert!(error.detailed().contains("no such note"), "{}", error.detailed());
    backend.stop().await;

    let backend =
        Backend::start(spec("b", shell(&shell_legacy("echo 'Traceback: no such note'"))), settings(), None);
    let params = crate::support::params_of(r#"{"name":"echo"}"#);
    let deadline = Duration::from_secs(1);
    let request = vmcp_backend::Request { deadline, ..vmcp_backend::Request::new("tools/call", &params) };
    let error = backend.request(request).await.unwrap_err();
    assert!(matches!(error, CallError::Timeout { .. }), "{error}");
    assert!(!error.to_string().contains("Traceback"), "not for each client: {error}");
    assert!(error.detailed().contains("meanwhile it sent: Traceback: no such note"), "{}", error.detailed());
    backend.stop().await;
}

#[tokio::test]
async fn the_era_of_a_program_does_not_depend_on_the_time_of_its_start() {
    // Takes the first `initialize` as the choice of its era, as the TypeScript SDK 2 does.
    let dual = r#"
      if [ -z "$started" ]; then sleep 1; started=1; fi
      case $method in
      server/discover) reply '{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}';;
      initialize) pinned=legacy; reply "$initialized";;
      tools/list) reply "$tools";;
      notifications/*) ;;
      *) reply "{\"era\":\"${pinned:-modern}\"}";; esac"#;
    let settings = BackendSettings { stdio_probe_timeout: Duration::from_millis(300), ..settings() };
    let backend = Backend::start(spec("b", shell(dual)), settings.clone(), None);
    let answered = call(&backend, "echo").await.unwrap();
    assert_eq!((answered.era, result(&answered)), (Era::Modern, r#"{"era":"modern"}"#));
    backend.stop().await;

    // A server of the modern era alone need not start again.
    let modern = dual.replace("pinned=legacy; reply \"$initialized\"", "refuse");
    let backend = Backend::start(spec("b", shell(&modern)), settings, None);
    assert_eq!(call(&backend, "echo").await.unwrap().era, Era::Modern);
    assert_eq!(backend.status().restarts, 0);
    backend.stop().await;
}
