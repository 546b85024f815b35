//! Leader election: one replica writes, another takes over, nothing is lost.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use vmcp_kubernetes_tests::{ControlPlane, Namespace, Operator, Stopwatch};

fn server(name: &str) -> String {
    format!(
        "{{apiVersion: toolhive.stacklok.com/v1alpha1, kind: VirtualMCPServer, metadata: {{name: {name}}}, spec: {{}}}}"
    )
}

async fn leads(operator: &Operator) -> bool {
    operator.metric("vmcp_operator_leader", &[]).await as u64 == 1
}

async fn holder(place: &Namespace) -> Option<String> {
    place.get::<Lease>("vmcp-operator").await?.spec?.holder_identity
}

#[tokio::test]
async fn the_other_replica_takes_over() {
    let place = ControlPlane::shared().await.namespace("leader").await;
    let mut first = Operator::replica(&place, "first").await;
    place.eventually("a leader", async || leads(&first).await.then_some(())).await;
    let second = Operator::replica(&place, "second").await;
    place.apply(&server("a")).await;
    place.eventually("a's Deployment", async || place.get::<Deployment>("a").await).await;
    assert!(!leads(&second).await);
    assert_eq!(second.writes().await, 0, "only the leader writes");

    // On SIGTERM the leader releases its lease at once.
    first.process.signal("TERM").await;
    assert!(first.process.ended().await.success());
    let holder_now = holder(&place).await.unwrap_or_default();
    assert!(!holder_now.starts_with("first_"), "nobody need wait for the end of the lease");
    place.eventually("the second to lead", async || leads(&second).await.then_some(())).await;
    place.apply(&server("b")).await;
    place.eventually("b's Deployment", async || place.get::<Deployment>("b").await).await;

    // After SIGKILL another replica leads when the lease has expired.
    let third = Operator::replica(&place, "third").await;
    let watch = Stopwatch::start(&place).await;
    second.process.signal("KILL").await;
    place.apply(&server("c")).await;
    place.eventually("c's Deployment", async || place.get::<Deployment>("c").await).await;
    assert!(leads(&third).await);
    assert!(holder(&place).await.is_some_and(|holder| holder.starts_with("third_")));
    let acquired = place.get::<Lease>("vmcp-operator").await.and_then(|lease| lease.spec?.acquire_time);
    let acquired = Time(acquired.expect("the time of the takeover").0);
    watch.assert_within(Duration::from_secs(20), "another replica leads", &acquired);
    place.remove().await;
}

#[tokio::test]
async fn a_leader_that_lost_its_lease_ends() {
    let place = ControlPlane::shared().await.namespace("robbed").await;
    let mut operator = Operator::replica(&place, "one").await;
    place.eventually("a leader", async || leads(&operator).await.then_some(())).await;
    let robbed = serde_json::json!({"spec": {"holderIdentity": "somebody-else"}});
    place.edit::<Lease>("vmcp-operator", robbed).await;
    assert!(!operator.process.ended().await.success());
    assert!(operator.process.output().contains("the lease was lost"), "{}", operator.process.output());
    place.remove().await;
}

#[tokio::test]
async fn what_a_killed_operator_left_undone_is_done_by_the_next() {
    const SERVERS: usize = 12;
    let place = ControlPlane::shared().await.namespace("killed").await;
    let first = Operator::with(&place, "first", &[("LEADER_ELECT", "false")]).await;
    let all: Vec<_> = (0..SERVERS).map(|number| server(&format!("s{number}"))).collect();
    place.apply(&all.join("\n---\n")).await;
    place
        .eventually("some of the work", async || {
            (!place.list::<Deployment>("app.kubernetes.io/name=vmcp").await.is_empty()).then_some(())
        })
        .await;
    first.process.signal("KILL").await;
    let _second = Operator::with(&place, "second", &[("LEADER_ELECT", "false")]).await;
    place
        .eventually("all of the work", async || {
            (place.list::<Deployment>("app.kubernetes.io/name=vmcp").await.len() == SERVERS).then_some(())
        })
        .await;
    place.remove().await;
}
