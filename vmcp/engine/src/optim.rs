//! Signatures of vmcp's own tools, find_tool, call_tool and others: their names, their definitions for
//! `tools/list`, and the arguments that clients pass. The handlers are in `vmcp-route`.

pub mod call_arguments;
pub mod definitions;
pub mod find_arguments;
pub mod framework_keys;
pub mod input;
pub mod names;
pub mod own_arguments;
pub(crate) mod own_mark;
pub mod short_schema;
pub mod visible_schema;
