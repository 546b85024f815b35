//! The signatures of our own tools, find_tool and call_tool: names, definitions and arguments. What they do is in
//! [`crate::route`].

pub mod call_arguments;
pub mod definitions;
pub mod find_arguments;
pub mod input;
pub mod names;
