//! A cluster, through the person's `kubectl`: its kubeconfig, contexts, sign-in and rights. The command
//! line has no client of Kubernetes of its own.
//!
//! | room | holds |
//! |---|---|
//! | `cluster_server` | options that name a VirtualMCPServer, and what commands read and change of it |
//! | `server_resource` | the resource, as far as commands read it; pure |
//! | `kubectl` | the process: values go in by its standard input, and nowhere else |
//! | `port_forward` | a forwarded port of a pod |
//! | `refusal` | the remedy for each complaint of `kubectl`; pure |
//! | `names` | names of objects; pure |

pub(super) mod cluster_server;
pub(super) mod kubectl;
pub(super) mod names;
pub(super) mod port_forward;
mod refusal;
pub(super) mod server_resource;

/// API group of the resources.
pub(super) const GROUP: &str = "toolhive.stacklok.com";
/// Field manager of written objects, and value of the label `app.kubernetes.io/managed-by`.
pub(super) const MANAGER: &str = "vmcp";
