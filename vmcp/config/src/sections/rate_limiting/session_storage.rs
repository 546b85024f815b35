//! `sessionStorage`: the store that replicas share. Sessions need none, because their ids are sealed; the
//! buckets of `rateLimiting` are kept in it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::problems::Report;
use crate::values::secret::Secret;

/// Port of a Redis server whose address names none.
const DEFAULT_PORT: u16 = 6379;
/// Schemes of an address: without and with TLS.
const SCHEMES: [&str; 2] = ["redis", "rediss"];

/// A Redis server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisStore {
    /// Host name or IP address, the latter without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// True if it is reached by TLS.
    pub tls: bool,
    /// Number of the database.
    pub db: u32,
    /// Beginning of all keys.
    pub key_prefix: String,
    /// User of the access control list; `None`: the default user.
    pub username: Option<String>,
    /// Password.
    pub password: Option<Secret>,
}

/// The store that replicas share. Sessions need none, because their ids are sealed; with `redis`, all
/// replicas take the tokens of `rateLimiting` from the same buckets.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "SessionStorage")]
pub struct RawSessionStorage {
    /// Kind of store.
    pub provider: RawStorageProvider,
    /// Address of the Redis server, as `HOST:PORT`, or as `rediss://HOST:PORT` for TLS. Needed by
    /// `provider: redis`.
    pub address: String,
    /// Number of the Redis database.
    #[schemars(range(max = 65535))]
    pub db: u32,
    /// Beginning of all keys in Redis. Servers with the same prefix share their limits.
    pub key_prefix: String,
    /// User of Redis' access control list. Empty: the default user.
    pub username: String,
    /// Password of Redis. Empty: none is needed.
    pub password: Secret,
}

impl Default for RawSessionStorage {
    fn default() -> Self {
        Self {
            provider: RawStorageProvider::default(),
            address: String::new(),
            db: 0,
            key_prefix: "vmcp:".to_owned(),
            username: String::new(),
            password: Secret::default(),
        }
    }
}

/// Kinds of store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "StorageProvider")]
pub enum RawStorageProvider {
    /// The memory of each replica.
    #[default]
    Memory,
    /// A Redis or Valkey server.
    Redis,
}

impl RawSessionStorage {
    pub(crate) fn validate(&self, report: &mut Report) -> Option<RedisStore> {
        if self.provider == RawStorageProvider::Memory {
            if !self.address.is_empty() {
                let remedy = "set `provider: redis`, or remove it";
                report.problem("sessionStorage.address", "memory has no address", remedy);
            }
            return None;
        }
        if self.address.is_empty() {
            report.problem("sessionStorage.address", "missing", "add `address: HOST:6379`");
            return None;
        }
        let Some(url) = parse(&self.address) else {
            let message = format!("`{}` is not an address", self.address);
            let remedy = "write HOST:PORT, or rediss://HOST:PORT for TLS";
            report.problem("sessionStorage.address", message, remedy);
            return None;
        };
        let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        Some(RedisStore {
            host: host.to_owned(),
            port: url.port().unwrap_or(DEFAULT_PORT),
            tls: url.scheme() == "rediss",
            db: self.db,
            key_prefix: self.key_prefix.clone(),
            username: (!self.username.is_empty()).then(|| self.username.clone()),
            password: (!self.password.expose().is_empty()).then(|| self.password.clone()),
        })
    }
}

/// Parses an address that is nothing but a host and a port.
fn parse(address: &str) -> Option<Url> {
    let text = if address.contains("://") { address.to_owned() } else { format!("redis://{address}") };
    let url = Url::parse(&text).ok().filter(|url| SCHEMES.contains(&url.scheme()))?;
    let bare = url.username().is_empty() && url.password().is_none() && url.query().is_none();
    let is_address = bare && matches!(url.path(), "" | "/") && url.fragment().is_none();
    (is_address && url.host_str().is_some_and(|host| !host.is_empty())).then_some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_with_or_without_port_and_tls() {
        let of = |address: &str| {
            let mut report = Report::default();
            let raw = RawSessionStorage {
                provider: RawStorageProvider::Redis,
                address: address.to_owned(),
                ..RawSessionStorage::default()
            };
            raw.validate(&mut report).map(|store| (store.host, store.port, store.tls))
        };
        assert_eq!(of("redis:6380"), Some(("redis".to_owned(), 6380, false)));
        assert_eq!(of("rediss://cache.example.com"), Some(("cache.example.com".to_owned(), 6379, true)));
        assert_eq!(of("[::1]:6379"), Some(("::1".to_owned(), 6379, false)));
        for wrong in ["http://redis:6379", "redis://user:pw@redis", "redis:6379/1", ":6379", "redis:port"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
