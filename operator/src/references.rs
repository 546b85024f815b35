//! References that several kinds of resources make: to values of Secrets, to certificates in ConfigMaps, and
//! to the MCPGroup that a resource belongs to.

mod ca_bundle;
mod dereference_error;
mod group_membership;
mod referenced_secrets;

pub(crate) use self::ca_bundle::{CaBundle, users_of_config_map};
pub(crate) use self::dereference_error::DereferenceError;
pub(crate) use self::group_membership::{group_condition, group_exists, members_of};
pub(crate) use self::referenced_secrets::{ReferencedSecrets, users_of};
