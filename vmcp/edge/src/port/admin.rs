//! The admin port: `/healthz`, `/readyz`, `/metrics`, and the reports under `/admin/`, which want a bearer
//! token.

pub mod diagnosis;
pub(in crate::port) mod guard;
pub mod operator_call;
pub mod port;
mod readiness;
mod recent;
mod refresh;
pub mod routes;
mod sessions;
pub(in crate::port) mod status;
mod tool_changes;
mod tool_metrics;
mod topic_usage;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;
use serde::Deserialize;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use vmcp_config::status::ConfigurationStatus;

use super::console::sources::ConsoleSources;
use vmcp_engine::engine::Engine;
use vmcp_engine::telemetry::recent::RecentCalls;

/// The state of the admin port; cheap to clone.
#[derive(Clone)]
pub struct Admin(pub(in crate::port) Arc<AdminState>);

pub(in crate::port) struct AdminState {
    pub(in crate::port) engine: Engine,
    /// Outcome of the latest reloads; `None` without a configuration file.
    pub(in crate::port) configuration: Option<watch::Receiver<ConfigurationStatus>>,
    started: Instant,
    draining: AtomicBool,
    /// The latest calls.
    pub(in crate::port) calls: Arc<RecentCalls>,
    /// Remedies and snippets of the console.
    pub(in crate::port) console: ConsoleSources,
    /// Address of the client port, once it is bound.
    clients_at: OnceLock<SocketAddr>,
    /// Ends a change of the log level that was made for a time.
    level_timer: Mutex<Option<AbortOnDropHandle<()>>>,
}

impl Admin {
    /// Creates the admin port of `engine`, whose reloads `configuration` reports.
    pub fn new(engine: Engine, configuration: Option<watch::Receiver<ConfigurationStatus>>) -> Self {
        Self::with_calls(engine, configuration, Arc::default(), ConsoleSources::default())
    }

    /// As [`Admin::new`]; `calls` observes the calls of `engine`, and `console` adds to its pages.
    pub fn with_calls(
        engine: Engine,
        configuration: Option<watch::Receiver<ConfigurationStatus>>,
        calls: Arc<RecentCalls>,
        console: ConsoleSources,
    ) -> Self {
        Self(Arc::new(AdminState {
            engine,
            configuration,
            started: Instant::now(),
            draining: AtomicBool::new(false),
            calls,
            console,
            clients_at: OnceLock::new(),
            level_timer: Mutex::default(),
        }))
    }

    /// Records the address of the client port, which the console shows. The first record stays.
    pub(in crate::port) fn serves_clients_at(&self, address: SocketAddr) {
        let _ = self.0.clients_at.set(address);
    }

    /// Returns the address of the client port, if there is one.
    pub(in crate::port) fn clients_at(&self) -> Option<SocketAddr> {
        self.0.clients_at.get().copied()
    }

    /// Makes `/readyz` answer 503, so that no new requests are sent here.
    pub fn draining(&self) {
        self.0.draining.store(true, Ordering::Relaxed);
    }
}

/// The query `?backend=NAME`.
#[derive(Deserialize)]
struct BackendFilter {
    backend: Option<String>,
}
