//! Callers and their rights: [`identity`] says who calls, [`policy`] decides about each call, [`outgoing`]
//! proves at backends who calls, [`profiles`] narrows what a path leads to, [`principal_shares`] keeps one
//! caller from taking what belongs to all, [`sealing_keys`] seal ids and states of callers,
//! [`agent_sessions`] keeps the sessions that coding agents of a caller report, [`context_key`] names
//! callers' contexts, [`configured`] makes policies, webhooks and limits of a configuration.

pub mod agent_sessions;
mod cedar;
pub mod configured;
pub mod context_key;
pub mod identity;
pub mod outgoing;
pub mod policy;
pub mod principal_shares;
mod profiles;
pub mod sealing_keys;
pub(crate) mod session_webhooks;
