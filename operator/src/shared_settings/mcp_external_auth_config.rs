//! MCPExternalAuthConfig: credentials for backends, checked with the values of their Secrets.

mod controller;
mod status;
mod validate;

pub(crate) use self::controller::controller;
pub(crate) use self::validate::validate;
