//! [`ScriptJobs`]: the seam to the cluster, in which a script runs as a Kubernetes Job.

use std::fmt::Debug;
use std::time::Duration;

use futures::future::BoxFuture;

use crate::limits::ScriptLimits;
use crate::pool::Interpreter;
use crate::protocol::Failure;

/// Settings of the Job of one script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSettings {
    /// Image with `python3` (CPython 3.9 or newer) on its search path.
    pub image: String,
    /// Names of Secrets with credentials for the registry of the image.
    pub image_pull_secrets: Vec<String>,
    /// RuntimeClass of the pod, such as `gvisor`; `None`: the cluster's default.
    pub runtime_class_name: Option<String>,
    /// Limit of CPU, in thousandths of a processor.
    pub cpu_millicores: u32,
    /// Limit of memory in bytes, the interpreter included.
    pub memory: u64,
    /// Bytes that the pod may write to `/tmp` and its log.
    pub ephemeral_storage: u64,
    /// Time from the Job's creation until the pod takes its script.
    pub start_timeout: Duration,
    /// Longest time that a script may ask for; the Job's own deadline lies behind it.
    pub max_timeout: Duration,
}

/// Starts an interpreter as a Job of the cluster that this process runs in.
pub trait ScriptJobs: Debug + Send + Sync {
    /// Creates a Job and waits until its pod takes a script. Dropped, this future removes the Job; so does
    /// the returned interpreter.
    fn launch<'a>(
        &'a self,
        settings: &'a JobSettings,
        limits: &'a ScriptLimits,
    ) -> BoxFuture<'a, Result<Box<dyn Interpreter>, Failure>>;
}
