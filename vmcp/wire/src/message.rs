//! The vocabulary of MCP: eras and methods, the JSON-RPC envelope and its errors, `params` and `_meta`. All
//! of it is re-exported at the root of the crate.

pub mod codes;
pub mod envelope;
pub mod era;
pub mod keys;
pub mod letter_case;
pub mod level;
pub mod meta;
pub mod methods;
pub mod owned;
pub mod params;
pub mod request_meta;
pub mod rpc;
pub mod subject;
