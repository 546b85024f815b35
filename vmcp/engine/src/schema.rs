//! Schemas of tools: a bound of what they cost to evaluate, and the check of a call's arguments and of its
//! structured result against them.

mod blocking;
mod check;
mod cost;
mod mending;
mod patterns;

pub use check::{CheckedArguments, ToolChecks};
