//! Session hooks of coding agents: a client reports the begin, the prompts and the end of its sessions, and a
//! new session gets the summary of the one before. Pure: no I/O, no clock, no randomness.
//!
//! | module | holds |
//! |---|---|
//! | [`hook_type`] | types of hooks, their spellings and aliases |
//! | [`hook_call`] | one hook: its parameters, read within limits |
//! | [`native`] | payloads and answers of Claude Code and Codex |
//! | [`session`] | sessions, their states and events |
//! | [`decision`] | the change that a hook makes to its session |
//! | [`transcript`], [`summary`], [`title`] | texts made of a transcript or a prompt, without a model |
//! | [`report`] | the answer to a hook |
//! | [`news`] | facts about a hook for programs that follow sessions |
//!
//! ```
//! use vmcp_hooks::decision::{KnownSessions, Moment, decide};
//! use vmcp_hooks::hook_call::HookCall;
//!
//! let call = r#"{"hook_type": "user-prompt-submit",
//!     "params": {"session_id": "s1", "prompt": "Help me refactor auth"}}"#;
//! let call = HookCall::read(call)?;
//! let moment = Moment { now: 0, new_id: "id".to_owned(), machine_id: "m".to_owned(), summary: None };
//! let decision = decide(&call, KnownSessions::default(), moment);
//! assert_eq!(decision.session.title.as_deref(), Some("Refactor auth"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod decision;
pub mod hook_call;
pub mod hook_type;
pub mod native;
pub mod news;
pub mod report;
pub mod session;
pub mod summary;
pub mod title;
pub mod transcript;
