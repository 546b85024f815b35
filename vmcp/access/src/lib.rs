//! Access: the identity of a client, with the claims that were proved.

pub mod identity;
