//! Access: the identity of a client, with the claims that were proved, and the policies about its calls.

pub mod identity;
pub mod policy;
