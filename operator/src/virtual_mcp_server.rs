//! VirtualMCPServer: a Deployment of `vmcp`, the configuration that it mounts, the ways to reach it, and its
//! status.
//!
//! Two files more than other kinds: `observe` asks the pods for their status reports, `kubelet_nudge` makes
//! the kubelet sync changed files at once. `last_good` keeps the configuration that serves while the resource
//! is invalid.

mod build;
mod controller;
mod dereference;
mod kubelet_nudge;
mod last_good;
mod names;
mod objects;
mod observe;
mod status;
#[cfg(test)]
mod testing;
mod validate;

pub(crate) use self::controller::controller;
