//! Input schemas of tools: a bound of what they cost to evaluate, and the check of a call's arguments against
//! them.

mod blocking;
mod check;
mod coercion;
mod cost;

pub(crate) use check::ArgumentCheck;
pub(crate) use coercion::repaired;
