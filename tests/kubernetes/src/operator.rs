//! [`Operator`]: the built `vmcp-operator`, running beside the test and watching the namespace of the test.

mod measured;
mod rights;

pub use self::rights::{SCRIPT_JOBS_ROLE, SERVER_ADMIN_ROLE, script_jobs_role, server_admin_roles};

use std::time::Duration;

use tokio::process::Command;
use vmcp_integration::{Process, binary, free_port, http_client};

use crate::Namespace;

/// Longest wait until an operator has nothing left to write. It looks at each object again every few seconds.
const REST_TIMEOUT: Duration = Duration::from_mins(5);

/// A running operator; killed when dropped. Its log is printed when the test fails.
pub struct Operator {
    /// Its process, for its log, its memory and for signals.
    pub process: Process,
    metrics: String,
    health: String,
}

impl Operator {
    /// Defines the resources, and starts one replica that watches `place` alone, with the rights that the
    /// chart grants in one namespace. It does not elect a leader: one that a busy machine lets miss its lease
    /// would end.
    pub async fn start(place: &Namespace) -> Self {
        Self::with(place, "one", &[("LEADER_ELECT", "false")]).await
    }

    /// Starts a replica under a name; several elect a leader.
    pub async fn replica(place: &Namespace, identity: &str) -> Self {
        Self::with(place, identity, &[]).await
    }

    /// Starts an operator with variables of the environment that add to the usual ones or override them, and
    /// waits until it is ready.
    pub async fn with(place: &Namespace, identity: &str, variables: &[(&str, &str)]) -> Self {
        let mut operator = Self::begin(place, identity, variables).await;
        let ready = format!("operator {identity} to be ready");
        place
            .eventually(&ready, async || {
                operator.process.assert_running();
                operator.readiness().await.is_some_and(|(ready, _)| ready).then_some(())
            })
            .await;
        operator
    }

    /// Starts an operator and waits for nothing. One that watches the whole cluster (`WATCH_NAMESPACE` empty)
    /// acts as the administrator.
    pub async fn begin(place: &Namespace, identity: &str, variables: &[(&str, &str)]) -> Self {
        place.cluster().define_resources().await;
        let [metrics, health] = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
        let given = |name: &str| variables.iter().find(|(found, _)| *found == name).map(|(_, value)| *value);
        let namespaces = given("WATCH_NAMESPACE").unwrap_or(&place.name);
        let kubeconfig = if namespaces.is_empty() {
            place.cluster().kubeconfig().to_owned()
        } else {
            let namespaces: Vec<&str> = namespaces.split(',').map(str::trim).collect();
            rights::confine(place, &namespaces, |variable| {
                given(variable).is_some_and(|value| value != "false")
            })
            .await
        };
        let mut command = Command::new(binary("vmcp-operator"));
        command
            .env("KUBECONFIG", kubeconfig)
            .env("WATCH_NAMESPACE", &place.name)
            .env("POD_NAMESPACE", &place.name)
            .env("POD_NAME", identity)
            .env("METRICS_LISTEN", &metrics)
            .env("HEALTH_LISTEN", &health)
            .env("LOG_FORMAT", "text")
            // So that a test sees soon whether reconciles without a change write.
            .env("RESYNC_SECONDS", "10")
            // Scenarios of the policies apply them.
            .env("AUTHORS_CHECKED", "true")
            // The control plane runs no pods: the image only has to be named.
            .env("VMCP_IMAGE", "vmcp:none")
            .envs(variables.iter().copied());
        let process = Process::start(&format!("operator {identity}"), &mut command);
        Self { process, metrics, health }
    }

    /// Returns true if `/readyz` says that it is ready, with the text of the answer; `None` without one.
    pub async fn readiness(&self) -> Option<(bool, String)> {
        let answer = http_client().get(format!("http://{}/readyz", self.health)).send().await.ok()?;
        let ready = answer.status().is_success();
        Some((ready, answer.text().await.ok()?))
    }

    /// Returns the Prometheus metrics.
    pub async fn metrics(&self) -> String {
        let answer = http_client().get(format!("http://{}/metrics", self.metrics)).send().await;
        answer.expect("the port of the metrics").text().await.expect("metrics")
    }

    /// Returns the sum of a counter or gauge over the lines that begin with `name` and contain every one of
    /// `labels`.
    pub async fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let metrics = self.metrics().await;
        let lines = metrics.lines().filter(|line| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']))
                && labels.iter().all(|label| line.contains(label))
        });
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Returns the number of writes to the API server so far.
    pub async fn writes(&self) -> u64 {
        self.metric("vmcp_operator_api_writes_total", &[]).await as u64
    }

    /// Returns the number of reconciles of a kind so far.
    pub async fn reconciles(&self, kind: &str) -> u64 {
        self.metric("vmcp_operator_reconciles_total", &[kind]).await as u64
    }

    /// Waits until so many reconciles of `kind` in a row wrote nothing; returns the number of writes by then.
    pub async fn at_rest(&self, place: &Namespace, kind: &str, reconciles: u64) -> u64 {
        let mut last_write = (self.reconciles(kind).await, self.writes().await);
        place
            .eventually_within(REST_TIMEOUT, "reconciles that write nothing", async || {
                let now = (self.reconciles(kind).await, self.writes().await);
                // Before the first reconcile, rest proves nothing: the operator may not have begun.
                if now.1 > last_write.1 || last_write.0 == 0 {
                    last_write = now;
                    return None;
                }
                (now.0 >= last_write.0 + reconciles).then_some(now.1)
            })
            .await
    }
}
