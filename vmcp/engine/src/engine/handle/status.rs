//! Methods of [`Engine`] that report its state: backends, embedding, and all metrics.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use vmcp_access::identity::client_certificate::earliest_end;
use vmcp_access::oidc::issuer::IssuerStatus;
use vmcp_backend::{BackendState, BackendStatus};
use vmcp_config::status::{DefinitionChanges, EmbeddingStatus};
use vmcp_config::{Backend, Config};

use crate::engine::Engine;
use crate::engine::embedding::configured;
use crate::metrics::{BackendLabels, CertificateLabels, IssuerLabels, SignalLabels, StoreLabels};
use crate::telemetry::logs;
use crate::telemetry::otlp::losses;

impl Engine {
    /// Returns the status of each backend, disabled ones included, sorted by name.
    pub fn backend_status(&self) -> Vec<BackendStatus> {
        let snapshot = self.snapshot();
        let Config { backends, unavailable, .. } = &*snapshot.config;
        let disabled = backends.iter().filter(|spec| !spec.enabled);
        let disabled = disabled.map(|spec| disabled_status(spec, unavailable.get(&spec.name)));
        let mut status: Vec<_> =
            snapshot.backends.values().map(vmcp_backend::Backend::status).chain(disabled).collect();
        status.sort_by(|one, other| one.name.cmp(&other.name));
        let mut changes = self.changes();
        for backend in &mut status {
            let hidden = snapshot.quarantine.iter().filter(|(name, _)| **name == *backend.name);
            backend.quarantined = hidden.map(|(_, tool)| tool.clone()).collect();
            backend.quarantined.sort();
            backend.changes = changes.remove(&backend.name);
        }
        status
    }

    /// Returns how the last changed listing of each backend differed from the one before.
    pub fn changes(&self) -> BTreeMap<String, DefinitionChanges> {
        self.0
            .shared
            .changes()
            .iter()
            .map(|(backend, changes)| (backend.to_string(), changes.clone()))
            .collect()
    }

    /// Returns the state of embedding: provider, model, progress, and the reason for an outage.
    pub fn embedding_status(&self) -> EmbeddingStatus {
        let snapshot = self.snapshot();
        match self.0.shared.provider.load_full() {
            Some(provider) => provider.status(snapshot.embedding_progress()),
            None => EmbeddingStatus {
                provider: configured::provider_name(&snapshot.config).to_owned(),
                ..EmbeddingStatus::default()
            },
        }
    }

    /// Returns all metrics in OpenMetrics text format, for `GET /metrics`.
    pub fn render_metrics(&self) -> String {
        let metrics = self.metrics();
        // Two renderings at once would clear each other's families.
        let _rendering = metrics.rendering();
        // The family is rebuilt, so that removed backends leave no gauge behind.
        metrics.backend_up.clear();
        for status in self.backend_status() {
            let up = i64::from(status.state == BackendState::Connected);
            metrics.backend_up.get_or_create(&BackendLabels { backend: status.name }).set(up);
        }
        metrics.identity_provider_up.clear();
        for IssuerStatus { issuer, failure, .. } in self.snapshot().authentication.status() {
            let up = i64::from(failure.is_none());
            metrics.identity_provider_up.get_or_create(&IssuerLabels { issuer }).set(up);
        }
        metrics.rate_limit_store_up.clear();
        if let Some(store) = self.snapshot().rate_limiter.shared() {
            metrics
                .rate_limit_store_up
                .get_or_create(&StoreLabels { provider: "redis".to_owned() })
                .set(i64::from(store.is_up()));
        }
        metrics.certificate_expiry.clear();
        let config = Arc::clone(&self.snapshot().config);
        let server = config.server.tls.as_ref().map(|tls| tls.certificate.as_str());
        let authorities = config.incoming_auth.client_authorities.as_deref();
        for (certificate, pem) in [("server", server), ("client_authorities", authorities)] {
            if let Some(end) = pem.and_then(earliest_end) {
                let end = i64::try_from(end).unwrap_or(i64::MAX);
                metrics.certificate_expiry.get_or_create(&CertificateLabels { certificate }).set(end);
            }
        }
        for signal in losses::SIGNALS {
            let labels = SignalLabels { signal: signal.label() };
            metrics.telemetry_lost.get_or_create(&labels).inner().store(signal.lost(), Ordering::Relaxed);
        }
        metrics.log_lines_dropped.inner().store(logs::dropped_lines() as u64, Ordering::Relaxed);
        let kept = self.results().usage();
        metrics.kept_results.set(i64::try_from(kept.results).unwrap_or(i64::MAX));
        metrics.kept_results_bytes.set(i64::try_from(kept.bytes).unwrap_or(i64::MAX));
        metrics.kept_results_evicted.inner().store(kept.evicted, Ordering::Relaxed);
        metrics.kept_results_unshared.inner().store(self.results().unshared(), Ordering::Relaxed);
        metrics.buffered_bytes.set(i64::try_from(self.byte_budget().held()).unwrap_or(i64::MAX));
        metrics.encode()
    }
}

/// Returns the status of a backend that is configured and disabled; failed if that is for a `reason`.
fn disabled_status(spec: &Backend, reason: Option<&String>) -> BackendStatus {
    BackendStatus {
        name: spec.name.to_string(),
        transport: spec.kind().to_owned(),
        state: if reason.is_some() { BackendState::Failed } else { BackendState::Configured },
        last_error: reason.cloned(),
        ..BackendStatus::default()
    }
}
