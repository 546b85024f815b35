//! Own tools for the servers themselves: `catalog_upkeep` lists and embeds their tools again, `servers` adds,
//! removes and switches them.

pub(super) mod catalog_upkeep;
pub(crate) mod servers;
