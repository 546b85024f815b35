//! The node itself: pods, Services, DNS and mounted configuration, which other scenarios take for granted.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::json;
use vmcp_kubernetes_tests::Cluster;

const WEB: &str = "apiVersion: v1
kind: ConfigMap
metadata: {name: pages}
data: {index.html: one}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - name: web
          image: localhost/vmcp-tests/servers:1
          command: [python3, -m, http.server, --directory, /pages, '8080']
          readinessProbe: {httpGet: {port: 8080, path: /}, periodSeconds: 1}
          volumeMounts: [{name: pages, mountPath: /pages}]
          securityContext:
            runAsNonRoot: true
            readOnlyRootFilesystem: true
            allowPrivilegeEscalation: false
            capabilities: {drop: [ALL]}
            seccompProfile: {type: RuntimeDefault}
      volumes: [{name: pages, configMap: {name: pages}}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: reader}
spec:
  terminationGracePeriodSeconds: 0
  containers:
    - name: reader
      image: localhost/vmcp-tests/servers:1
      command: [sleep, infinity]
";

#[tokio::test]
async fn pods_run_behind_a_service_that_has_a_name_and_follow_their_configuration() {
    let cluster = Cluster::from_environment();
    let place = cluster.namespace("node").await;
    place.apply(WEB).await;
    let available = async || {
        let status = place.get::<Deployment>("web").await?.status?;
        (status.available_replicas == Some(2)).then_some(())
    };
    place.eventually("two pods", available).await;
    let running = async || (place.get::<Pod>("reader").await?.status?.phase? == "Running").then_some(());
    place.eventually("the reader", running).await;

    let url = format!("http://web.{}.svc.cluster.local/", place.name);
    let program = format!("import urllib.request as r; print(r.urlopen('{url}', timeout=5).read().decode())");
    let read = ["exec", "--namespace", &place.name, "reader", "--", "python3", "-c", &program];
    let says = async |text: &str| (cluster.kubectl(&read).await.ok()?.trim() == text).then_some(());
    place.eventually("an answer through the Service", async || says("one").await).await;

    place.edit::<ConfigMap>("pages", json!({"data": {"index.html": "two"}})).await;
    for _ in 0..4 {
        place.eventually("the new page", async || says("two").await).await;
    }
    place.remove().await;
}
