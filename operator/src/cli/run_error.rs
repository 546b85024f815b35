//! [`RunError`]: the ends of the process that are failures.

use std::net::SocketAddr;
use std::time::Duration;

/// Error that keeps the operator from starting, or ended it.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No image of `vmcp` was given.
    #[error(
        "no image of vmcp was given; set --vmcp-image or VMCP_IMAGE, as in registry.example.com/team/vmcp:0.1.0"
    )]
    NoImage,
    /// There is neither a kubeconfig nor a service account.
    #[error("no cluster found: there is neither a kubeconfig nor the service account of a pod")]
    Config(#[from] kube::config::InferConfigError),
    /// The kubeconfig or the service account cannot be used.
    #[error("cannot use the kubeconfig or the service account")]
    Client(#[from] kube::Error),
    /// SIGTERM or SIGINT cannot be received.
    #[error("cannot receive signals")]
    Signal(#[source] std::io::Error),
    /// An address cannot be listened at.
    #[error("cannot listen at {address}; choose another with --metrics-listen or --health-listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A kind could not be listed within the time for it: a right or a definition is missing.
    #[error("not every kind could be listed within {seconds} s; grant the rights of the chart, install its definitions, and check WATCH_NAMESPACE; {pending}", seconds = .after.as_secs())]
    NotSynced {
        /// The time that the first lists may take.
        after: Duration,
        /// The watches without a list, with their last errors.
        pending: String,
    },
    /// The Lease could not be renewed in time, or another replica holds it. The process ends, and its restart
    /// is a candidate again.
    #[error("the lease was lost; another replica takes over")]
    LeaseLost,
    /// A running operator does not become ready.
    #[error("the operator at {url} is not ready: {last}")]
    NotReady {
        /// The address that was asked.
        url: String,
        /// Its last answer.
        last: String,
    },
    /// A controller, a watch or an endpoint ended before the shutdown.
    #[error("a controller, a watch or an endpoint ended unexpectedly, which is a bug; the log has the place")]
    Ended,
}
