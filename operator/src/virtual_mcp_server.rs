//! VirtualMCPServer: a Deployment of `vmcp`, the configuration that it mounts, the ways to reach it, and its
//! status.
//!
//! Files that other kinds lack: `observe` reads the last status reports of the pods, `exposure_order` decides
//! what may be reachable by what the pods have in force, `kubelet_nudge` makes
//! the kubelet sync changed files at once, `last_good` keeps the configuration that serves while the resource
//! is invalid, `start_settings` replaces pods for settings that a process reads at its start.

mod build;
mod controller;
mod dereference;
mod exposure_order;
mod kubelet_nudge;
mod last_good;
mod names;
mod objects;
mod observe;
mod start_settings;
mod status;
#[cfg(test)]
mod testing;
mod validate;

pub(crate) use self::controller::controller;
