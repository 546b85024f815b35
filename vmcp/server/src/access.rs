//! Callers and their rights: [`identity`] says who calls, [`policy`] decides about each call.

pub mod identity;
pub mod policy;
