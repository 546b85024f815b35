//! The built `vmcp-operator`, running beside the test against the namespace of the test.

use tokio::process::Command;
use vmcp_integration::{Process, binary, free_port, http_client};

use crate::Namespace;

/// A running operator; killed when dropped. What it logs is printed when the test fails.
pub struct Operator {
    /// Its process, for its log, its memory and for signals.
    pub process: Process,
    metrics: String,
}

impl Operator {
    /// Defines the resources, and starts one replica that looks after `place` alone. It has the rights of an administrator,
    /// and leads unasked: one that a busy machine lets miss its lease would end.
    pub async fn start(place: &Namespace) -> Self {
        Self::with(place, "one", &[("LEADER_ELECT", "false")]).await
    }

    /// The same under a name, for several replicas that elect one that leads.
    pub async fn replica(place: &Namespace, identity: &str) -> Self {
        Self::with(place, identity, &[]).await
    }

    /// The same with variables of the environment that say more, or otherwise.
    pub async fn with(place: &Namespace, identity: &str, variables: &[(&str, &str)]) -> Self {
        place.cluster().define_resources().await;
        let [metrics, health] = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
        let mut command = Command::new(binary("vmcp-operator"));
        command
            .env("KUBECONFIG", place.cluster().kubeconfig())
            .env("WATCH_NAMESPACE", &place.name)
            .env("POD_NAMESPACE", &place.name)
            .env("POD_NAME", identity)
            .env("METRICS_LISTEN", &metrics)
            .env("HEALTH_LISTEN", &health)
            .env("LOG_FORMAT", "text")
            .envs(variables.iter().copied());
        let mut process = Process::start(&format!("operator {identity}"), &mut command);
        let operator = format!("operator {identity} to be ready");
        place
            .eventually(&operator, async || {
                process.assert_running();
                let asked = http_client().get(format!("http://{health}/readyz")).send().await;
                asked.is_ok_and(|answer| answer.status().is_success()).then_some(())
            })
            .await;
        Self { process, metrics }
    }

    /// The Prometheus metrics.
    pub async fn metrics(&self) -> String {
        let answer = http_client().get(format!("http://{}/metrics", self.metrics)).send().await;
        answer.expect("the port of the metrics").text().await.expect("metrics")
    }

    /// The sum of a counter or gauge over the lines that begin with `name` and contain every one of `labels`.
    pub async fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let metrics = self.metrics().await;
        let lines = metrics.lines().filter(|line| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']))
                && labels.iter().all(|label| line.contains(label))
        });
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }
}
