//! Callers and their rights: [`identity`] says who calls, [`policy`] decides about each call,
//! [`outgoing`] proves at backends who calls, [`principal_shares`] keeps one caller from taking what belongs
//! to all.

mod cedar;
pub mod identity;
pub(crate) mod outgoing;
pub mod policy;
pub(crate) mod principal_shares;
pub(crate) mod rate_limits;
