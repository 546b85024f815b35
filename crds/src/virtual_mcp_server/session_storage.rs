//! The store that the pods share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vmcp_config::raw::RawStorageProvider;

use crate::fields::cel_rules::rules;
use crate::fields::references::SecretKeyReference;

/// The store that the pods share, for the buckets of `config.rateLimiting`. Sessions need none, because their
/// ids are sealed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "self.provider != 'redis' || has(self.address)",
    "provider redis needs an address; give sessionStorage.address",
)])))]
pub struct SessionStorage {
    /// Kind of store.
    pub provider: RawStorageProvider,
    /// Address of the Redis server, as `HOST:PORT`, or as `rediss://HOST:PORT` for TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub address: Option<String>,
    /// Number of the Redis database.
    #[schemars(range(min = 0, max = 65535))]
    pub db: i32,
    /// Beginning of all keys in Redis. Default: namespace and name of the resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub key_prefix: Option<String>,
    /// Secret key that holds the password of Redis.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_ref: Option<SecretKeyReference>,
}
