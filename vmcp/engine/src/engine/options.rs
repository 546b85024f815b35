//! Options of an engine: everything about a run that is not in the configuration file.

use std::path::PathBuf;
use std::sync::Arc;

use vmcp_backend::{Downstream, OrphanGuard};
use vmcp_embed::Embedder;
use vmcp_script::jobs::ScriptJobs;
use vmcp_script::pool::WorkerProgram;
use vmcp_store::StoreError;
use vmcp_wire::sealed::KeyError;

use crate::access::policy::Policy;
use crate::metrics::Metrics;
use crate::server_registrar::ServerRegistrar;
use crate::server_registrar::registry_reader::RegistryReader;
use crate::telemetry::calls::CallObserver;

/// Options of a run beside the configuration.
#[derive(Clone)]
pub struct Options {
    /// Place of the cache.
    pub storage: Storage,
    /// Embeds tools in the background.
    pub embed: bool,
    /// Starts with the definitions that were saved last time.
    pub cached: bool,
    /// Embeds in place of the configured provider; for benchmarks that leave the model's own time out.
    pub embedder: Option<Arc<dyn Embedder>>,
    /// Metrics of the process.
    pub metrics: Arc<Metrics>,
    /// Decides about each call in place of the configured policies.
    pub policy: Option<Arc<dyn Policy>>,
    /// Read the record of each call, after the metrics and the audit log.
    pub observers: Vec<Arc<dyn CallObserver>>,
    /// Receives messages that backends send outside of requests; without a receiver they are dropped.
    pub downstream: Option<Arc<dyn Downstream>>,
    /// Bridge mode: this process takes the place of the one backend, a local program. It is introduced in the
    /// program's own words, shares its environment and standard error with it, and fails calls at once
    /// instead of waiting for a program that ended to come back.
    pub bridge: bool,
    /// Digest of the configuration file's path, which programs get, so that a vmcp among them notices that it
    /// would serve itself.
    pub served: Option<Arc<str>>,
    /// Ends programs if this process is killed.
    pub orphan_guard: Option<Arc<OrphanGuard>>,
    /// The program of workers for scripts; `None`: none are run.
    pub script_worker: Option<WorkerProgram>,
    /// Jobs of the cluster for scripts; `None` outside of a cluster.
    pub script_jobs: Option<Arc<dyn ScriptJobs>>,
    /// Keeper of the configured servers; `None`: clients cannot change them.
    pub registrar: Option<Arc<dyn ServerRegistrar>>,
    /// Reader of the registry in which clients find servers; `None`: they find none.
    pub registry: Option<Arc<dyn RegistryReader>>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            storage: Storage::Configured,
            embed: true,
            cached: true,
            embedder: None,
            metrics: Arc::default(),
            policy: None,
            observers: Vec::new(),
            downstream: None,
            bridge: false,
            served: None,
            orphan_guard: None,
            script_worker: None,
            script_jobs: None,
            registrar: None,
            registry: None,
        }
    }
}

/// Place of the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Storage {
    /// In the configured folder, or the default one.
    Configured,
    /// In this folder.
    Dir(PathBuf),
    /// In memory.
    Memory,
}

/// Errors of a start. No backend, model or disk is ever the reason.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Even a cache in memory failed.
    #[error("no cache: {0}")]
    Store(#[from] StoreError),
    /// The keys of `server.sessionKeys` cannot be used, which validation excludes.
    #[error("server.sessionKeys: {0}")]
    Keys(#[from] KeyError),
}
