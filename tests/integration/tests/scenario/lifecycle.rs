//! Start and graceful shutdown: ready whatever the backends do, and no call in flight is lost at SIGTERM.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::sleep;
use vmcp_integration::{Fixture, Vmcp, eventually, http_client};

#[tokio::test]
async fn sigterm_lets_calls_in_flight_end_and_takes_no_new_ones() {
    ends_gracefully("TERM").await;
}

#[tokio::test]
async fn sigquit_ends_as_gracefully_as_sigterm_and_other_signals_end_nothing() {
    ends_gracefully("QUIT").await;
}

async fn ends_gracefully(signal: &str) {
    let http = Fixture::http("http", "echo").start().await;
    let stdio = Fixture::stdio("stdio", "echo").start().await;
    let mut vmcp = Vmcp::new().backend(&http).backend(&stdio).start().await;
    vmcp.with_tool("http_sleep").await;
    let client = vmcp.with_tool("stdio_sleep").await;
    let (http_call, stdio_call, listener) = (
        client.call_tool("http_sleep", json!({"ms": 2000})),
        client.call_tool("stdio_sleep", json!({"ms": 2000})),
        vmcp.legacy().await,
    );
    // An open stream must not delay the end.
    let _stream = listener.listen().await;
    let ready = format!("{}/readyz", vmcp.admin);
    let end = async {
        eventually("both calls to arrive", async || {
            (http.calls("sleep").await == 1 && stdio.calls("sleep").await == 1).then_some(())
        })
        .await;
        // These end a program that does not handle them.
        vmcp.process.signal("USR1").await;
        vmcp.process.signal("USR2").await;
        vmcp.process.signal(signal).await;
        // A load balancer sees it, as long as the admin port answers at all.
        eventually("readiness to be taken back", async || {
            let readiness = http_client().get(&ready).send().await.ok().map(|answer| answer.status());
            (readiness.is_none_or(|status| status != 200)).then_some(())
        })
        .await;
    };
    let (first, second, ()) = futures::join!(http_call, stdio_call, end);
    assert_eq!(first.content_text(), "slept 2000 ms", "{}", first.text);
    assert_eq!(second.content_text(), "slept 2000 ms", "{}", second.text);
    let status = vmcp.process.ended().await;
    assert!(status.success(), "{status}");
}

#[tokio::test]
async fn a_request_sent_before_the_shutdown_could_be_known_is_answered() {
    const REQUEST: &[u8] = b"GET /nothing HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut answered = 0;
    while answered < 2 {
        let mut vmcp = Vmcp::new().start().await;
        // A connection in use, and an idle connection without buffers.
        let (mut used, mut resting) = (vmcp.connect().await, vmcp.connect().await);
        for connection in [&mut resting, &mut used] {
            connection.send(REQUEST).await;
            assert!(connection.read_head().await.starts_with("HTTP/1.1 404"));
            sleep(Duration::from_millis(80)).await;
        }
        vmcp.process.signal("TERM").await;
        let mut stopping = Instant::now();
        while vmcp.try_connect().await.is_some() {
            stopping = Instant::now();
        }
        for connection in [&mut used, &mut resting] {
            connection.try_send(REQUEST).await;
        }
        // A busy machine may be too slow for this test: it begins again.
        if stopping.elapsed() > Duration::from_millis(100) {
            continue;
        }
        for (name, connection) in [("used", &mut used), ("resting", &mut resting)] {
            let answer = connection.read_to_close().await;
            assert!(answer.starts_with("HTTP/1.1 404"), "{name}: {answer:?}");
            assert!(answer.contains("connection: close"), "{name}: {answer:?}");
        }
        assert!(vmcp.process.ended().await.success());
        answered += 1;
    }
}

#[tokio::test]
async fn a_drain_ends_even_if_a_call_does_not() {
    let echo = Fixture::http("echo", "echo").start().await;
    let mut vmcp = Vmcp::new().backend(&echo).config(json!({"server": {"drainTimeout": "1s"}})).start().await;
    let client = vmcp.with_tool("echo_sleep").await;
    let response = tokio::spawn(async move {
        client.open("tools/call", json!({"name": "echo_sleep", "arguments": {"ms": 600_000}})).await
    });
    eventually("the call to arrive", async || (echo.calls("sleep").await == 1).then_some(())).await;
    let start = Instant::now();
    vmcp.terminate().await;
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    response.abort();
}

#[tokio::test]
async fn while_load_balancers_learn_of_the_end_new_connections_are_served() {
    let echo = Fixture::http("echo", "echo").start().await;
    let delay = json!({"server": {"shutdownDelay": "5s"}});
    let mut vmcp = Vmcp::new().backend(&echo).config(delay).start().await;
    vmcp.with_tool("echo_echo").await;
    vmcp.process.signal("TERM").await;
    let ready = format!("{}/readyz", vmcp.admin);
    eventually("readiness to be taken back", async || {
        http_client().get(&ready).send().await.ok().filter(|answer| answer.status() == 503)
    })
    .await;
    // A new client opens a new connection.
    let answer = vmcp.modern().call_tool("echo_echo", json!({"message": "still here"})).await;
    assert!(answer.content_text().contains("still here"), "{}", answer.text);
    let status = vmcp.process.ended().await;
    assert!(status.success(), "{status}");
}

#[tokio::test]
async fn readiness_waits_for_no_backend() {
    let hung = Fixture::http("hung", "echo").fault(&json!({"do": "hang"})).start().await;
    let jira = Fixture::http("jira", "jira").start().await;
    let start = Instant::now();
    let vmcp = Vmcp::new().backend(&hung).backend(&jira).start().await;
    let client = vmcp.with_tool("jira_create_note").await;
    // Alone it takes some 50 ms; waiting for the hung backend would take its connection timeout, 30 s.
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert!(
        client
            .find_tool(json!({"tool_description": "write a note"}))
            .await
            .content_text()
            .contains("jira_create_note")
    );
}

#[tokio::test]
async fn a_session_outlives_the_process_that_opened_it() {
    let jira = Fixture::http("jira", "jira").start().await;
    let keys = json!({"server": {"sessionKeys": ["${SESSION_KEY}"]}});
    let key = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let start =
        async || Vmcp::new().backend(&jira).config(keys.clone()).env("SESSION_KEY", key).start().await;
    let mut first = start().await;
    first.with_tool("jira_create_note").await;
    let opened = first.legacy().await;
    first.terminate().await;
    let second = start().await;
    second.with_tool("jira_create_note").await;
    let moved = second.legacy().await.with_session(opened.session.as_deref().expect("a session"));
    assert!(moved.tools().await.contains_key("jira_create_note"));
}

#[tokio::test]
async fn the_database_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let jira = Fixture::http("jira", "jira").start().await;
    let vmcp = Vmcp::new().backend(&jira).start().await;
    vmcp.with_tool("jira_create_note").await;
    let file = vmcp.storage().join("embeddings.db");
    let mode = eventually("the database", async || file.metadata().ok()).await.permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(vmcp.storage().metadata().expect("a folder").permissions().mode() & 0o777, 0o700);
}
