//! Codex as an MCP server: an adapter between MCP and `codex app-server`, both as JSON lines.
//!
//! The protocol of the app server is that of `codex app-server generate-json-schema` of 0.171.0: JSON-RPC
//! without its `jsonrpc` member. Unknown notifications are ignored.
//!
//! | module | holds |
//! |---|---|
//! | [`adapter`] | the state machine: messages in, [`Effect`](adapter::Effect)s out, without I/O |
//! | [`serve`](fn@serve) | the I/O around it: two readers, two writers, working directories |
//! | `call_arguments` | arguments of the tools, read within limits |
//! | `tools` | definitions of the tools |
//! | `turn` | record of one turn, bounded |
//! | `approval` | requests of Codex for an approval, as questions to a person |
//!
//! Tools: `codex` runs a turn in a new thread or an existing one, `codex_list_threads` lists threads,
//! `codex_archive_thread` archives one.

mod adapter;
mod approval;
mod call_arguments;
mod serve;
mod tools;
mod turn;

pub use adapter::AdapterSettings;
pub use serve::{Lines, serve};
pub use tools::{LIST_THREADS, TOOLS};
