//! References that several kinds of resources make: to values of Secrets, and to the MCPGroup that a resource
//! belongs to.

mod group_membership;
mod referenced_secrets;

pub(crate) use self::group_membership::{group_condition, group_exists, members_of};
pub(crate) use self::referenced_secrets::{ReferencedSecrets, users_of};
