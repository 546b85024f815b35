//! MCP messages as they travel: raw envelopes, eras, headers, SSE, translations, sealed tokens; pure.
//!
//! A message is never turned into a tree. [`envelope::Message`] splits it into its few parts, each a borrowed
//! slice of the bytes that arrived; [`vmcp_json::object::Edit`] changes the keys that a gateway must change
//! and leaves every other byte where it was; [`rpc`] writes the result into a new envelope in one copy.
//!
//! ```
//! use vmcp_wire::{envelope::Message, era::Era, rpc, translate};
//!
//! // A backend of 2025-11-25 answers a client of 2026-07-28.
//! let from_backend = br#"{"jsonrpc":"2.0","id":7,"result":{"content":[],"x-vendor":1e400}}"#;
//! let Message::Response(response) = Message::parse(from_backend)? else { unreachable!() };
//! let plan = translate::ResultPlan { from: Era::Legacy, to: Era::Modern, ..Default::default() };
//! let result = translate::result("tools/call", response.result, &plan)?;
//! assert_eq!(
//!     rpc::response(response.id, result),
//!     br#"{"jsonrpc":"2.0","id":7,"result":{"content":[],"x-vendor":1e400,"resultType":"complete"}}"#
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod handshake;
pub mod headers;
pub mod lists;
mod message;
pub mod payload;
pub mod sealed;
pub mod sse;
pub mod translate;

pub use message::{
    codes, envelope, era, keys, letter_case, level, meta, methods, owned, params, request_meta, rpc, subject,
};
