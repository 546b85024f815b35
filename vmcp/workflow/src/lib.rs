//! Composite tools: one tool whose steps call tools of backends, ask the user, and loop over lists. Pure but
//! for the clock.
//!
//! | module | content |
//! |---|---|
//! | [`raw`] | the definition as written, in the keys of ToolHive |
//! | [`definition`] | the definition as validated, or its mistakes with path and remedy |
//! | `template` | Go's `text/template`, held against Go in a differential test |
//! | [`run`] | a run: steps begin as soon as their own dependencies have ended |
//!
//! A run that asks the user becomes a text, from which another process continues it. Tools are reached
//! through [`run::ToolCaller`], so that each call of a step takes the way of a client's own.

pub mod definition;
mod duration;
mod mistakes;
pub mod raw;
pub mod run;
mod template;

pub use definition::{COMPOSITE, CompositeTool};
pub use mistakes::Mistake;
