//! Code mode in the cluster: each script runs in the pod of a Kubernetes Job, in CPython.
//!
//! | module | content |
//! |---|---|
//! | [`launcher`] | [`JobLauncher`]: creates a Job, waits for its pod, connects to it, removes it |
//! | [`server_pod`] | the pod that this process runs in, as the operator describes it |
//! | `job` | the manifest of a Job; pure |
//! | `pod_state` | progress and end of a pod, from its status; pure |
//! | `cluster` | the calls of the API server |
//! | `pod_interpreter` | frames over the connection to the pod |
//! | `drawn_pictures` | pictures in a frame of the pod, within bounds; pure |
//! | `script_driver.py` | the program of the pod, of the standard library alone |
//!
//! The server connects to the pod, and the pod connects to nothing: a NetworkPolicy denies it every outgoing
//! connection. The API server names the pod's address, and the pod knows the server by a token. The Job holds
//! only the hash of that token, which is of no use to readers of Jobs. The server connects only to a pod
//! whose controller is its Job, by UID.

mod cluster;
mod drawn_pictures;
mod job;
pub mod launcher;
mod pod_interpreter;
mod pod_state;
pub mod server_pod;

pub use job::{CONTAINER, DRIVER};
pub use launcher::JobLauncher;
pub use server_pod::{SCRIPT_PORT, ServerPod, is_in_server_pod};
