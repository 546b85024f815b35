//! The two listening ports: clients reach `/mcp` at one, operators the reports at the other. Accepts
//! connections within a limit, and drains them at shutdown.

pub mod admin;
pub mod admin_routes;
mod connections;
pub mod serve;
mod socket;
mod workers;
