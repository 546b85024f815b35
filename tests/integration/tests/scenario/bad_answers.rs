//! Malformed answers of backends, over every transport and in both eras: the caller gets a clear error or its
//! answer, and the server keeps serving in bounded memory.

use std::time::{Duration, Instant};

use serde_json::json;
use vmcp_integration::{Fixture, FixtureBuilder, Vmcp, eventually};

/// Upper bound for a call whose deadline is 3 s: three times as long, for a busy machine, and a sixth of the
/// default.
const IN_TIME: Duration = Duration::from_secs(10);

fn everywhere() -> Vec<FixtureBuilder> {
    vec![
        Fixture::http("bad", "echo"),
        Fixture::http("bad", "echo").args(["--stream"]),
        Fixture::http("bad", "echo").args(["--era", "legacy"]),
        Fixture::http("bad", "echo").args(["--era", "legacy", "--stream"]),
        Fixture::sse("bad", "echo").args(["--era", "legacy"]),
        Fixture::stdio("bad", "echo").shared(),
        Fixture::stdio("bad", "echo").args(["--era", "legacy"]).shared(),
    ]
}

async fn start_with_backend(bad: &Fixture) -> Vmcp {
    let settings = json!({"proxy": {"toolTimeout": "3s"}});
    let vmcp = Vmcp::new().backend(bad).config(settings).start().await;
    vmcp.with_tool("bad_echo").await;
    vmcp
}

/// Waits until clients of both eras get answers of the backend again, and checks that memory stayed bounded.
async fn assert_healthy(vmcp: &Vmcp, what: &str) {
    for client in [vmcp.modern(), vmcp.legacy().await] {
        eventually(&format!("the backend to serve after {what}"), async || {
            let answer = client.call_tool("bad_echo", json!({"message": "again"})).await;
            (!answer.is_failure()).then_some(())
        })
        .await;
    }
    assert!(vmcp.process.resident_mib() < 300, "{what}: {} MiB", vmcp.process.resident_mib());
}

#[tokio::test]
async fn bytes_that_are_no_text_and_events_that_break_off_are_errors_in_time() {
    for fixture in everywhere() {
        let bad = fixture.start().await;
        let vmcp = start_with_backend(&bad).await;
        for fault in ["not_utf8", "half"] {
            for client in [vmcp.modern(), vmcp.legacy().await] {
                bad.control(json!({"do": fault, "method": "tools/call", "times": 1})).await;
                let start = Instant::now();
                let answer = client.call_tool("bad_count", json!({})).await;
                assert!(answer.is_failure(), "{fault}: {}", answer.text);
                assert!(start.elapsed() < IN_TIME, "{fault} took {:?}", start.elapsed());
                assert!(!answer.text.contains("127.0.0.1"), "no address in {}", answer.text);
            }
            assert_healthy(&vmcp, fault).await;
        }
    }
}

#[tokio::test]
async fn answers_that_nobody_waits_for_reach_nobody() {
    for fixture in everywhere() {
        let bad = fixture.start().await;
        let vmcp = start_with_backend(&bad).await;
        for client in [vmcp.modern(), vmcp.legacy().await] {
            bad.control(json!({"do": "stray", "method": "tools/call", "times": 1})).await;
            let answer = client.call_tool("bad_echo", json!({"message": "mine"})).await;
            assert_eq!(answer.content_text(), "mine", "{}", answer.text);
            assert!(answer.notifications.is_empty(), "{:?}", answer.notifications);
        }
        assert_healthy(&vmcp, "strays").await;
    }
}

#[tokio::test]
async fn a_result_that_nests_ten_thousand_deep_is_relayed_unread() {
    for fixture in everywhere() {
        let bad = fixture.start().await;
        let vmcp = start_with_backend(&bad).await;
        for client in [vmcp.modern(), vmcp.legacy().await] {
            for tool in ["bad_echo", "optim.call_tool"] {
                bad.control(json!({"do": "deep", "levels": 10_000, "method": "tools/call", "times": 1}))
                    .await;
                let arguments =
                    json!({"message": "x", "tool_name": "bad_echo", "parameters": {"message": "x"}});
                let params = json!({"name": tool, "arguments": arguments});
                let answer = client.open("tools/call", params).await.text().await.expect("an answer");
                assert!(answer.contains(&"[".repeat(10_000)), "{tool}: {answer:.300}");
            }
        }
        assert_healthy(&vmcp, "depth").await;
    }
}

#[tokio::test]
async fn a_million_notifications_end_with_the_answer_or_the_deadline() {
    for fixture in [Fixture::http("bad", "echo").args(["--stream"]), Fixture::stdio("bad", "echo").shared()] {
        let bad = fixture.start().await;
        let settings = json!({"proxy": {"toolTimeout": "20s", "maxToolTimeout": "20s"}});
        let vmcp = Vmcp::new().backend(&bad).config(settings).start().await;
        let client = vmcp.with_tool("bad_echo").await;
        bad.control(json!({"do": "flood", "count": 1_000_000, "method": "tools/call", "times": 1})).await;
        let last = client.call_tool("bad_echo", json!({"message": "after all that"})).await;
        assert!(last.content_text() == "after all that" || last.text.contains("timed out"), "{}", last.text);
        assert_healthy(&vmcp, "a million notifications").await;
    }
}
