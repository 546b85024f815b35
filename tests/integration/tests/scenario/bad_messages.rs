//! Malformed, oversized and hostile messages of clients: each ends in the protocol error that names it, and
//! the server keeps serving in bounded memory.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use vmcp_integration::{Client, Fixture, MODERN, Vmcp, VmcpBuilder, WAIT_TIMEOUT, http_client};

const BOTH: &str = "application/json, text/event-stream";

/// Posts any bytes with these headers; returns the status and the JSON of the answer, null if it has none.
async fn post(url: &str, headers: &[(&str, &str)], body: impl Into<reqwest::Body>) -> (u16, Value) {
    let post = headers.iter().fold(http_client().post(url), |post, (name, value)| post.header(*name, *value));
    let answer = post.body(body).send().await.expect("an answer");
    (answer.status().as_u16(), answer.json().await.unwrap_or_default())
}

/// Posts JSON as a client with or without a session would.
async fn post_json(url: &str, session: Option<&str>, body: impl Into<reqwest::Body>) -> (u16, Value) {
    let mut headers = vec![("content-type", "application/json"), ("accept", BOTH)];
    headers.extend(session.map(|id| ("mcp-session-id", id)));
    post(url, &headers, body).await
}

/// Checks that clients of both eras are answered and that the process has not grown.
async fn assert_healthy(vmcp: &Vmcp) {
    vmcp.modern().request("tools/list", json!({})).await.result();
    vmcp.legacy().await.request("tools/list", json!({})).await.result();
    assert!(vmcp.process.resident_mib() < 300, "{} MiB", vmcp.process.resident_mib());
}

#[tokio::test]
async fn what_is_not_json_by_its_headers_is_refused_before_it_is_read() {
    let vmcp = Vmcp::new().start().await;
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    for (content_type, accept, expected) in [
        ("text/plain", BOTH, 415),
        ("application/x-www-form-urlencoded", BOTH, 415),
        ("multipart/form-data; boundary=application/json", BOTH, 415),
        ("application/jsonp", BOTH, 415),
        ("application/json", "text/html", 406),
        ("application/json", "text/event-stream", 406),
        ("application/json; charset=utf-8", BOTH, 400),
    ] {
        let (status, answer) =
            post(&vmcp.url, &[("content-type", content_type), ("accept", accept)], body).await;
        assert_eq!(status, expected, "{content_type}, {accept}: {answer}");
        assert!(answer["error"]["message"].is_string(), "{content_type}: {answer}");
    }
    let (status, answer) = post(&vmcp.url, &[("accept", BOTH)], body).await;
    assert_eq!(status, 415, "{answer}");
    assert_healthy(&vmcp).await;
}

#[tokio::test]
async fn what_is_no_message_gets_the_code_of_its_mistake() {
    let vmcp = Vmcp::new().start().await;
    let session = vmcp.legacy().await.session.expect("a session");
    let deep = |levels: usize| {
        let (open, close) = ("[".repeat(levels), "]".repeat(levels));
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":{open}{close}}}}}"#)
    };
    let cases: [(Vec<u8>, i64, &str); 12] = [
        (b"{".to_vec(), -32700, "not JSON"),
        (b"".to_vec(), -32700, "not JSON"),
        (br#"{"jsonrpc":"2.0","id":1,"method":"ping"}{}"#.to_vec(), -32700, "not JSON"),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"pi\xffng\"}".to_vec(), -32700, "UTF-8"),
        (br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#.to_vec(), -32600, "batch"),
        (b"[]".to_vec(), -32600, "batch"),
        (br#""ping""#.to_vec(), -32600, "not a JSON-RPC message"),
        (br#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#.to_vec(), -32600, "jsonrpc"),
        (br#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#.to_vec(), -32600, "`id`"),
        (br#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#.to_vec(), -32600, "duplicate"),
        (br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#.to_vec(), -32602, "params"),
        (deep(10_000).into_bytes(), -32600, "128"),
    ];
    for (body, code, word) in cases {
        for session in [None, Some(session.as_str())] {
            let shown = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
            let (status, answer) = post_json(&vmcp.url, session, body.clone()).await;
            assert_eq!(status, 400, "{shown}: {answer}");
            assert_eq!(answer["error"]["code"], code, "{shown}: {answer}");
            let message = answer["error"]["message"].as_str().unwrap_or_default();
            assert!(message.contains(word), "{word} in {message}");
            let has_id = ["params", "jsonrpc", "128"].contains(&word);
            assert_eq!(
                answer.get("id").is_some(),
                has_id,
                "an error has the id that could be read: {answer}"
            );
        }
    }
    assert_healthy(&vmcp).await;
}

#[tokio::test]
async fn an_unknown_method_is_named_and_its_name_is_cut() {
    let vmcp = Vmcp::new().start().await;
    for client in [vmcp.modern(), vmcp.legacy().await] {
        let status = if client.session.is_some() { 200 } else { 404 };
        for method in ["tools/make", "", "initialize2", &"x".repeat(4000), "notifications/initialized"] {
            let answer = client.request(method, json!({})).await;
            assert_eq!(answer.status, status, "{}", answer.text);
            assert_eq!(answer.error()["code"], -32601, "{}", answer.text);
            assert!(answer.text.len() < 400, "{}", answer.text);
        }
    }
    assert_healthy(&vmcp).await;
}

#[tokio::test]
async fn a_list_that_no_backend_declares_is_an_unknown_method_in_the_modern_era() {
    let vmcp = Vmcp::new().start().await;
    for method in ["prompts/list", "resources/list", "resources/templates/list"] {
        let answer = vmcp.modern().request(method, json!({})).await;
        assert_eq!(answer.status, 404, "{}", answer.text);
        assert_eq!(answer.error()["code"], -32601, "{}", answer.text);
        // A session may have been told of a backend that is gone.
        let answer = vmcp.legacy().await.request(method, json!({})).await;
        assert!(answer.result().is_object(), "{}", answer.text);
    }
    assert!(vmcp.modern().request("tools/list", json!({})).await.result().is_object());
}

#[tokio::test]
async fn a_foreign_host_or_origin_is_not_served_in_any_way() {
    let vmcp = Vmcp::new().start().await;
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    for (name, value) in [
        ("host", "evil.example"),
        ("host", "127.0.0.1.evil.example:80"),
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("origin", "http://localhost.evil.example"),
    ] {
        for method in ["POST", "GET", "DELETE"] {
            let method = reqwest::Method::from_bytes(method.as_bytes()).expect("a method");
            let request = http_client().request(method.clone(), &vmcp.url).header(name, value);
            let request =
                request.header("content-type", "application/json").header("accept", BOTH).body(body);
            let answer = request.send().await.expect("an answer");
            assert_eq!(answer.status(), 403, "{method} {name}: {value}");
            let text = answer.text().await.expect("a body");
            assert!(text.contains("server.allowed"), "{text}");
        }
    }
    assert_healthy(&vmcp).await;
}

#[tokio::test]
async fn a_hundred_mebibytes_are_refused_and_not_kept() {
    let vmcp = Vmcp::new().start().await;
    let address = vmcp.url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    for length in ["content-length: 104857600", "transfer-encoding: chunked"] {
        let stream = TcpStream::connect(&address).await.expect("a connection");
        let (mut input, mut output) = stream.into_split();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\naccept: {BOTH}\r\n{length}\r\n\r\n"
        );
        let chunked = length.contains("chunked");
        let sending = tokio::spawn(async move {
            output.write_all(head.as_bytes()).await?;
            let piece = vec![b' '; 64 * 1024];
            for _ in 0..1600 {
                if chunked {
                    output.write_all(b"10000\r\n").await?;
                }
                output.write_all(&piece).await?;
                if chunked {
                    output.write_all(b"\r\n").await?;
                }
            }
            output.write_all(if chunked { b"0\r\n\r\n" } else { b"" }).await
        });
        let mut answer = vec![0; 1024];
        let read =
            tokio::time::timeout(WAIT_TIMEOUT, input.read(&mut answer)).await.expect("an answer in time");
        let answer = String::from_utf8_lossy(&answer[..read.expect("an answer")]).into_owned();
        assert!(answer.starts_with("HTTP/1.1 413"), "{length}: {answer}");
        // vmcp does not want the rest: it cuts the connection, or reads and drops.
        let sent = tokio::time::timeout(WAIT_TIMEOUT, sending).await;
        assert!(sent.is_ok(), "{length}: neither taken nor cut off");
        assert_healthy(&vmcp).await;
    }
}

#[tokio::test]
async fn a_session_id_that_is_not_ours_is_not_found() {
    let vmcp = Vmcp::new().start().await;
    let other = Vmcp::new().start().await;
    let client = vmcp.legacy().await;
    let id = client.session.clone().expect("a session");
    let (middle, foreign) = (id.len() / 2, other.legacy().await.session.expect("a session"));
    let flipped = |at: usize| {
        let letter = if id.as_bytes()[at] == b'A' { "B" } else { "A" };
        format!("{}{letter}{}", &id[..at], &id[at + 1..])
    };
    let forged = [
        flipped(0),
        flipped(1),
        flipped(middle),
        flipped(id.len() - 2),
        id[..middle].to_owned(),
        id[..id.len() - 1].to_owned(),
        format!("{id}A"),
        format!("{id}="),
        "A".repeat(6000),
        "made up".to_owned(),
        foreign,
    ];
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    for forged in &forged {
        let (status, answer) = post_json(&vmcp.url, Some(forged), ping).await;
        assert_eq!(status, 404, "{forged}: {answer}");
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(message.starts_with("session not found"), "{message}");
        for method in [reqwest::Method::GET, reqwest::Method::DELETE] {
            let request = http_client().request(method.clone(), &vmcp.url).header("mcp-session-id", forged);
            let answer = request.header("accept", "text/event-stream").send().await.expect("an answer");
            assert_eq!(answer.status(), 404, "{method} {forged}");
        }
    }
    let (status, answer) = post_json(&vmcp.url, None, ping).await;
    assert_eq!(status, 400, "{answer}");
    assert!(
        answer["error"]["message"].as_str().is_some_and(|text| text.contains("Mcp-Session-Id")),
        "{answer}"
    );
    assert_eq!(post_json(&vmcp.url, Some(&id), ping).await.0, 200, "the true one still works");
    assert!(client.close().await.status().is_success());
    assert_eq!(post_json(&vmcp.url, Some(&id), ping).await.0, 404, "replayed");
    assert_eq!(client.close().await.status(), 404);
    assert_healthy(&vmcp).await;
}

#[tokio::test]
async fn requests_under_the_same_id_each_get_their_own_answer() {
    let backends = [
        Fixture::http("modern", "echo").args(["--era", "modern"]).start().await,
        Fixture::http("legacy", "echo").args(["--era", "legacy"]).start().await,
        Fixture::stdio("pipe", "echo").start().await,
    ];
    let vmcp = backends.iter().fold(Vmcp::new(), VmcpBuilder::backend).start().await;
    for backend in &backends {
        vmcp.with_tool(&format!("{}_echo", backend.name)).await;
        for client in [vmcp.modern(), vmcp.legacy().await] {
            let call = async |number: u64| {
                let tool = format!("{}_{}", backend.name, if number == 0 { "sleep" } else { "echo" });
                let params =
                    json!({"name": tool, "arguments": {"ms": 300, "message": format!("number {number}")}});
                client.open_as(7, "tools/call", params).await.text().await.expect("an answer")
            };
            let answers = futures::future::join_all((0..8).map(call)).await;
            assert!(answers[0].contains("slept 300 ms"), "{}", answers[0]);
            for (number, answer) in answers.iter().enumerate().skip(1) {
                assert!(
                    answer.contains(&format!("number {number}")) && answer.contains("\"id\":7"),
                    "{answer}"
                );
            }
        }
    }
    assert_healthy(&vmcp).await;
}

#[tokio::test]
async fn notifications_and_answers_that_mean_nothing_change_nothing() {
    let vmcp = Vmcp::new().start().await;
    let session = vmcp.legacy().await.session.expect("a session");
    for message in [
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": {"a": []}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled"}),
        json!({"jsonrpc": "2.0", "method": "notifications/made_up", "params": {"x": 1}}),
        json!({"jsonrpc": "2.0", "id": 5, "result": {}}),
        json!({"jsonrpc": "2.0", "id": "nobody asked", "error": {"code": 1, "message": "m"}}),
    ] {
        let (status, answer) = post_json(&vmcp.url, Some(&session), message.to_string()).await;
        let expected = if message.get("method").is_some() { 202 } else { 400 };
        assert_eq!(status, expected, "{message}: {answer}");
    }
    assert_healthy(&vmcp).await;
}

#[tokio::test]
async fn twenty_thousand_notifications_on_one_connection_leave_nothing_behind() {
    let vmcp = Vmcp::new().start().await;
    let session = vmcp.legacy().await.session.expect("a session");
    let before = vmcp.process.resident_mib();
    let http = http_client();
    let body = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    let send = async |_| {
        let post = http.post(&vmcp.url).header("content-type", "application/json").header("accept", BOTH);
        post.header("mcp-session-id", &session).body(body).send().await.expect("an answer").status().as_u16()
    };
    for round in 0..200 {
        let statuses = futures::future::join_all((0..100).map(|n| send(round * 100 + n))).await;
        assert!(statuses.iter().all(|status| *status == 202), "{statuses:?}");
    }
    let after = vmcp.process.resident_mib();
    assert!(after < before + 64, "{before} MiB before, {after} MiB after");
    assert_healthy(&vmcp).await;
}

#[tokio::test]
async fn a_client_that_never_reads_is_alone_with_that() {
    let echo = Fixture::http("echo", "echo").args(["--era", "legacy"]).start().await;
    let vmcp = Vmcp::new().backend(&echo).start().await;
    let client = vmcp.with_tool("echo_echo").await;
    echo.control(json!({"do": "flood", "count": 1_000_000, "method": "tools/call", "times": 2})).await;
    let mut silent: Vec<(Client, reqwest::Response)> = Vec::new();
    for reader in [vmcp.modern(), vmcp.legacy().await] {
        let params = json!({"name": "echo_echo", "arguments": {"message": "hi"},
            "_meta": {"io.modelcontextprotocol/logLevel": "debug"}});
        let response = reader.open("tools/call", params).await;
        silent.push((reader, response));
    }
    // The flood has begun: only its first notification makes vmcp answer the unread calls with the head of a
    // stream.
    assert_eq!(echo.calls("echo").await, 2);
    for _ in 0..100 {
        let answer = client.call_tool("echo_echo", json!({"message": "others go on"})).await;
        assert_eq!(answer.content_text(), "others go on");
        assert!(vmcp.process.resident_mib() < 300, "{} MiB", vmcp.process.resident_mib());
    }
    drop(silent);
    assert_eq!(client.call_tool("echo_echo", json!({"message": "x"})).await.content_text(), "x", "{MODERN}");
    assert_healthy(&vmcp).await;
}
