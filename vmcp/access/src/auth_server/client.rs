//! Clients of the authorization server: their registration, and the requests that they make.

pub(super) mod authorization_request;
pub(super) mod form;
mod redirect_uri;
pub(super) mod registration;

pub(super) use redirect_uri::{is_local, place};
