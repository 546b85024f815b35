//! Traces of the operator: reconciles with their requests to the API server, at a collector.

use vmcp_integration::Collector;
use vmcp_kubernetes_tests::{ControlPlane, Operator};

const GROUP: &str = "apiVersion: toolhive.stacklok.com/v1alpha1
kind: MCPGroup
metadata: {name: tools}
spec: {}
";

/// Kind CLIENT, as OTLP numbers it.
const CLIENT: i32 = 3;

#[tokio::test]
async fn a_reconcile_is_a_trace_with_its_requests() {
    let control_plane = ControlPlane::shared().await;
    let place = control_plane.namespace("traced").await;
    let collector = Collector::start().await;
    let variables = [
        ("LEADER_ELECT", "false"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &*collector.endpoint),
        ("OTEL_BSP_SCHEDULE_DELAY", "200"),
    ];
    let _operator = Operator::with(&place, "one", &variables).await;
    place.apply(GROUP).await;
    let spans = place
        .eventually("a reconcile with a request below it", async || {
            let spans = collector.spans();
            let reconciles = spans.iter().filter(|span| {
                span.name == "reconciling object"
                    && span.attribute("object.ref").is_some_and(|object| object.starts_with("MCPGroup."))
            });
            let has_request = reconciles
                .map(|reconcile| &reconcile.id)
                .any(|id| spans.iter().any(|span| span.kind == CLIENT && span.parent == *id));
            has_request.then_some(spans)
        })
        .await;
    let alone: Vec<_> = spans.iter().filter(|span| span.kind == CLIENT && span.parent.is_empty()).collect();
    assert!(alone.is_empty(), "watches belong to no reconcile: {alone:#?}");
}
