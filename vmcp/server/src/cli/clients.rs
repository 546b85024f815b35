//! Commands about other programs: MCP clients that use vmcp, remote servers that ask a person to sign in.

pub(super) mod connect;
pub(super) mod hooks;
pub(super) mod known_clients;
pub(super) mod login;
