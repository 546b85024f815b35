//! Sections of `vmcp.yaml`, one module each.
//!
//! A section has a raw type (`RawServer`: the keys as written, with their documentation, defaults and schema)
//! and a validated type ([`server::Server`]). `validate` turns the one into the other and reports every
//! mistake. [`limits`](optimizer::limits) has one type for both, because the ranges in its schema are its
//! only rules.

pub(crate) mod aggregation;
pub(crate) mod audit;
pub(crate) mod backend;
pub(crate) mod composite_tools;
pub(crate) mod config;
pub(crate) mod incoming_auth;
pub(crate) mod operational;
pub(crate) mod optimizer;
pub(crate) mod profiles;
pub(crate) mod proxy;
pub(crate) mod rate_limiting;
pub(crate) mod server;
pub(crate) mod telemetry;
