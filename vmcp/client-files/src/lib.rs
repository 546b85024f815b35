//! Files of other MCP clients: [`import`] converts them to `vmcp.yaml`, [`client_file`] makes vmcp one of
//! their servers, and [`hooks_file`] writes their hooks; [`known_clients`] has their places. Only the command
//! line needs them.

pub mod client_file;
pub mod hooks_file;
pub mod import;
pub mod known_clients;
