//! The two listening ports: clients reach `/mcp` at one, operators the reports at the other.
//!
//! [`connections`] accepts clients and hands them to [`workers`], [`connection`] serves one of them, and
//! [`stack`] shows every layer that a request passes. [`serve`] opens both ports and drains them at shutdown.

pub mod admin;
pub mod admin_routes;
mod connection;
mod connections;
mod layers;
mod open_files;
mod refusal_log;
pub mod serve;
mod socket;
mod stack;
mod tls;
mod workers;
