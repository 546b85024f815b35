//! Credentials that an operator withdraws end at every replica, with their sessions and streams.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use vmcp_integration::{Client, Fixture, Vmcp, eventually, http_client};

const ALICE: &str = "alice-0123456789abcdef";
const BOB: &str = "bob-0123456789abcdef";
/// Time in which a replica follows an order of another one.
const FOLLOWS: Duration = Duration::from_secs(2);
/// Time in which a stream ends.
const ENDS: Duration = Duration::from_secs(10);

async fn replicas() -> [Vmcp; 2] {
    let keys = json!([{"subject": "alice", "key": ALICE}, {"subject": "bob", "key": BOB}]);
    let settings = json!({
        "incomingAuth": {"type": "apiKeys", "apiKeys": keys},
        "server": {"sessionKeys": ["a key of both of the processes"]},
    });
    let start = || async { Vmcp::new().config(settings.clone()).start().await };
    let (mut one, mut other) = futures::join!(start(), start());
    let peers = [&one, &other].map(|vmcp| vmcp.admin.trim_start_matches("http://").to_owned());
    for vmcp in [&mut one, &mut other] {
        vmcp.reconfigure(json!({"server": {"peers": peers}}));
    }
    for vmcp in [&one, &other] {
        eventually("the replicas to know each other", async || {
            (vmcp.admin_json("admin/tool-metrics").await["replicas"] == 2).then_some(())
        })
        .await;
    }
    [one, other]
}

async fn status(vmcp: &Vmcp, key: &str) -> u16 {
    vmcp.modern().bearing(key).request("tools/list", json!({})).await.status.as_u16()
}

#[tokio::test]
async fn an_order_at_one_replica_ends_sessions_and_streams_at_the_other() {
    let [one, other] = replicas().await;
    let alice = Client::legacy_bearing(&other.url, ALICE).await;
    let bob = Client::legacy_bearing(&other.url, BOB).await;
    let (stream, of_bob) = (alice.listen().await, bob.listen().await);
    assert_eq!((stream.status(), of_bob.status()), (200.try_into().unwrap(), 200.try_into().unwrap()));
    let ended = one.cli(&["sessions", "end", "--subject", "alice", "--admin-url", &one.admin]).await;
    assert!(ended.success, "{}", ended.stderr);
    let ordered = Instant::now();
    while status(&other, ALICE).await != 401 {
        assert!(ordered.elapsed() < FOLLOWS, "the other replica does not follow");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(status(&other, BOB).await, 200);
    timeout(ENDS, stream.text()).await.expect("the stream of alice ends").ok();
    let open = timeout(Duration::from_millis(200), of_bob.text()).await;
    assert!(open.is_err(), "the stream of bob goes on");
    let listed: Value = other.admin_json("admin/sessions/ended").await;
    assert_eq!(listed["orders"][0]["subject"], "alice");
    let url = format!("{}/admin/sessions/allow?subject=alice", other.admin);
    assert!(http_client().post(url).send().await.expect("an answer").status().is_success());
    eventually("alice to be let in again", async || (status(&one, ALICE).await == 200).then_some(())).await;
}

#[tokio::test]
async fn an_order_ends_the_streams_of_calls_that_are_under_way() {
    let echo = Fixture::http("echo", "echo").start().await;
    let keys = json!([{"subject": "alice", "key": ALICE}]);
    let settings = json!({"incomingAuth": {"type": "apiKeys", "apiKeys": keys}});
    let vmcp = Vmcp::new().backend(&echo).config(settings).start().await;
    let alice = Client::legacy_bearing(&vmcp.url, ALICE).await;
    eventually("the tool to be listed", async || {
        alice.request("tools/list", json!({})).await.text.contains("echo_sleep").then_some(())
    })
    .await;
    let call = alice.open("tools/call", json!({"name": "echo_sleep", "arguments": {"ms": 25_000}})).await;
    assert_eq!(call.status().as_u16(), 200, "the stream begins before the answer");
    let ended = vmcp.cli(&["sessions", "end", "--subject", "alice", "--admin-url", &vmcp.admin]).await;
    assert!(ended.success, "{}", ended.stderr);
    let received = timeout(ENDS, call.text()).await.expect("the stream ends").unwrap_or_default();
    assert!(!received.contains("slept"), "{received}");
}
