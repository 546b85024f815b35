//! Callers and their rights: [`identity`] says who calls, [`policy`] decides about each call,
//! [`principal_shares`] keeps one caller from taking what belongs to all.

mod cedar;
pub mod identity;
pub mod policy;
pub(crate) mod principal_shares;
pub(crate) mod rate_limits;
