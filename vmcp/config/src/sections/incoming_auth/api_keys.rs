//! `incomingAuth.apiKeys`: keys of single clients.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::problems::{self, Report};
use crate::values::secret::{self, Secret};

/// Fewest characters of a key; a shorter one could be guessed.
const MIN_KEY_CHARS: usize = 16;

/// A key and the client it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Name of the client, for policies and records. Several keys may have one subject: that is how a key is
    /// rotated.
    pub subject: String,
    /// The key.
    pub key: Secret,
    /// Claims of the client, for policies; `sub` is the subject.
    pub claims: Map<String, Value>,
}

/// A key and the client it stands for.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ApiKey")]
pub struct RawApiKey {
    /// Required. Name of the client, for policies and records. Two keys of one subject are one client, so
    /// that a key can be rotated.
    pub subject: String,
    /// Required. Key of at least 16 characters; write `${file:/path}`, `${secret:NAME}` or `${NAME}`.
    pub key: Secret,
    /// Groups of the client, for policies: the claim `groups`.
    pub groups: Vec<String>,
    /// Roles of the client, for policies: the claim `roles`.
    pub roles: Vec<String>,
}

pub(super) fn validate(keys: &[RawApiKey], report: &mut Report) -> Vec<ApiKey> {
    let mut known = HashSet::new();
    let mut valid = Vec::with_capacity(keys.len());
    for (index, raw) in keys.iter().enumerate() {
        let path = problems::item("incomingAuth.apiKeys", index);
        let mut problem = |key: &str, message: &str, remedy: &str| {
            report.problem(&problems::key(&path, key), message, remedy);
        };
        if raw.subject.trim().is_empty() {
            problem("subject", "missing", "name the client that has this key");
        }
        let key = raw.key.expose();
        if key.chars().count() < MIN_KEY_CHARS {
            problem("key", "shorter than 16 characters", "make one by `openssl rand -base64 32`");
        } else if let Some(weakness) = secret::weakness(&raw.key) {
            problem("key", weakness, "make one by `openssl rand -base64 32`");
        } else if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            problem(
                "key",
                "has characters that no HTTP header carries",
                "use printable ASCII without spaces",
            );
        } else if !known.insert(key) {
            problem("key", "given twice", "give each client a key of its own");
        }
        let mut claims = Map::new();
        claims.insert("sub".to_owned(), raw.subject.clone().into());
        for (name, values) in [("groups", &raw.groups), ("roles", &raw.roles)] {
            if !values.is_empty() {
                claims.insert(name.to_owned(), values.clone().into());
            }
        }
        valid.push(ApiKey { subject: raw.subject.clone(), key: raw.key.clone(), claims });
    }
    valid
}
