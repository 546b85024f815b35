//! Own tools for the servers themselves: `catalog_upkeep` lists and embeds their tools again, `servers` adds,
//! removes and switches them. `call_hook` keeps the sessions of a client.

pub(super) mod call_hook;
pub(super) mod catalog_upkeep;
pub(crate) mod servers;
