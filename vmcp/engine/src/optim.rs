//! Entries of vmcp's own tools, find_tool, call_tool and others, in lists: names, definitions, and the mark
//! by which vmcp recognizes itself. Arguments and handlers are in `own_tools` of `vmcp-route`.

pub(crate) mod client_hints;
pub mod definitions;
pub mod names;
pub(crate) mod own_mark;
pub mod own_resources;
