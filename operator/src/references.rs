//! References that several kinds of resources make: to values of Secrets, to certificates in ConfigMaps, to
//! the MCPGroup that a resource belongs to, and to objects of namespaces that grant it.

mod adder;
mod ca_bundle;
mod concerned;
mod dereference_error;
mod digest_key;
mod group_membership;
mod provider_classes;
mod reference_grants;
mod referenced_secrets;

pub(crate) use self::adder::{adder, is_of_added_servers, shared_secrets};
pub(crate) use self::ca_bundle::{CaBundle, policies_in_config_map, users_of_config_map};
pub(crate) use self::concerned::concerned;
pub(crate) use self::dereference_error::DereferenceError;
pub(crate) use self::digest_key::{digest_key, digest_key_secret};
pub(crate) use self::group_membership::{group_condition, group_exists, members_of};
pub(crate) use self::provider_classes::provider_classes;
pub(crate) use self::reference_grants::{GrantRefusal, GrantTarget, granted_namespaces, is_granted, refusal};
pub(crate) use self::referenced_secrets::{MAX_SECRET_BYTES, ReferencedSecrets, users_of};
