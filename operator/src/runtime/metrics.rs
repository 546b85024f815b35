//! The operator's Prometheus metrics; `docs/operator/operations.md` explains each. All names begin with
//! `vmcp_operator_`.

use std::collections::BTreeMap;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindAndOutcome {
    kind: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindAndCategory {
    kind: &'static str,
    category: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindAndVerb {
    kind: &'static str,
    verb: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindAndPhase {
    kind: &'static str,
    phase: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByKind {
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOutcome {
    outcome: &'static str,
}

/// The metrics of one process.
pub struct Metrics {
    reconciles: Family<KindAndOutcome, Counter>,
    durations: Family<ByKind, Histogram, fn() -> Histogram>,
    errors: Family<KindAndCategory, Counter>,
    writes: Family<KindAndVerb, Counter>,
    watch_failures: Family<ByKind, Counter>,
    polls: Family<ByOutcome, Counter>,
    resources: Family<KindAndPhase, Gauge>,
    leader: Gauge,
    registry: Registry,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("vmcp_operator");
        let metrics = Self {
            reconciles: Family::default(),
            durations: Family::new_with_constructor(|| {
                Histogram::new([0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0])
            }),
            errors: Family::default(),
            writes: Family::default(),
            watch_failures: Family::default(),
            polls: Family::default(),
            resources: Family::default(),
            leader: Gauge::default(),
            registry: Registry::default(),
        };
        registry.register("reconciles", "Reconciles by kind and outcome", metrics.reconciles.clone());
        registry.register(
            "reconcile_duration_seconds",
            "Duration of reconciles, by kind",
            metrics.durations.clone(),
        );
        registry.register("errors", "Errors by kind and category", metrics.errors.clone());
        registry.register(
            "api_writes",
            "Writes sent to the API server, by kind of the object and verb",
            metrics.writes.clone(),
        );
        registry.register("watch_failures", "Interrupted watches by kind", metrics.watch_failures.clone());
        registry.register(
            "status_polls",
            "Polls of /admin/status of pods, by outcome",
            metrics.polls.clone(),
        );
        registry.register(
            "resources",
            "Resources that run pods, by kind and phase; in the replica that leads",
            metrics.resources.clone(),
        );
        registry.register("leader", "1 while this replica holds the lease", metrics.leader.clone());
        Self { registry, ..metrics }
    }
}

impl Metrics {
    /// Counts a reconcile and its duration.
    pub(super) fn reconciled(&self, kind: &'static str, outcome: &'static str, took: Duration) {
        self.reconciles.get_or_create(&KindAndOutcome { kind, outcome }).inc();
        self.durations.get_or_create(&ByKind { kind }).observe(took.as_secs_f64());
    }

    /// Counts an error by its category.
    pub(super) fn failed(&self, kind: &'static str, category: &'static str) {
        self.errors.get_or_create(&KindAndCategory { kind, category }).inc();
    }

    /// Counts a write that is about to be sent.
    pub(super) fn wrote(&self, kind: &'static str, verb: &'static str) {
        self.writes.get_or_create(&KindAndVerb { kind, verb }).inc();
    }

    /// Counts an interrupted watch.
    pub(super) fn watch_failed(&self, kind: &'static str) {
        self.watch_failures.get_or_create(&ByKind { kind }).inc();
    }

    /// Counts a poll of a pod's `/admin/status`.
    pub(crate) fn polled(&self, outcome: &'static str) {
        self.polls.get_or_create(&ByOutcome { outcome }).inc();
    }

    /// Replaces the numbers of resources by the kind and phase of each.
    pub(crate) fn count_resources(&self, phases: impl IntoIterator<Item = (&'static str, String)>) {
        let mut counts = BTreeMap::<_, i64>::new();
        for of_resource in phases {
            *counts.entry(of_resource).or_default() += 1;
        }
        // Set, not increased: two scrapes at once would count twice.
        self.resources.clear();
        for ((kind, phase), count) in counts {
            self.resources.get_or_create(&KindAndPhase { kind, phase }).set(count);
        }
    }

    /// Records whether this replica leads.
    pub(crate) fn leads(&self, leads: bool) {
        self.leader.set(leads.into());
    }

    /// Returns all metrics in the OpenMetrics text format.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_page() {
        let metrics = Metrics::default();
        // A family shows its labels with its first sample.
        metrics.reconciled("VirtualMCPServer", "ok", Duration::from_millis(1));
        metrics.failed("VirtualMCPServer", "Invalid");
        metrics.wrote("Deployment", "apply");
        metrics.watch_failed("Secret");
        metrics.polled("ok");
        let phases = ["Ready", "Failed", "Ready"].map(|phase| ("MCPServer", phase.to_owned()));
        metrics.count_resources(phases.clone());
        metrics.count_resources(phases);
        let count = r#"vmcp_operator_resources{kind="MCPServer",phase="Ready"} 2"#;
        assert!(metrics.text().contains(count), "{}", metrics.text());
        metrics.leads(true);
        let page = format!(
            "# Metrics of the operator\n\nGenerated from the registry; do not edit: `make schema` writes it. Served at \
             `GET /metrics` of port 8080 as OpenMetrics;\na counter's samples end in `_total`. Label values and the \
             questions that these metrics answer: [operations](../operator/operations.md#the-operator).\n\n{}",
            vmcp_tidy::metrics_table(&metrics.text())
        );
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/operator-metrics.md");
        if std::env::var_os("VMCP_UPDATE_SCHEMA").is_some() {
            std::fs::write(path, &page).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            committed == page,
            "docs/reference/operator-metrics.md is out of date; regenerate it: make schema"
        );
    }
}
