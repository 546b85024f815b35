//! [`Person`]: the person who signed in, as the first provider tells.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Bytes of a person's claims. A sign-in with more is refused, because a policy could miss left-out claims.
const MAX_CLAIM_BYTES: usize = 8 << 10;
/// Claims that speak about a token and not about the person.
const TOKEN_CLAIMS: [&str; 27] = [
    "iss",
    "sub",
    "aud",
    "exp",
    "iat",
    "nbf",
    "jti",
    "nonce",
    "azp",
    "at_hash",
    "c_hash",
    "s_hash",
    "sid",
    "auth_time",
    "acr",
    "amr",
    "cnf",
    "client_id",
    "scope",
    "scp",
    "act",
    "may_act",
    "typ",
    "rh",
    "uti",
    "aio",
    "ver",
];

/// A person, as the first provider tells.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::auth_server) struct Person {
    #[serde(rename = "s")]
    pub(in crate::auth_server) subject: String,
    #[serde(rename = "c", default, skip_serializing_if = "Map::is_empty")]
    pub(in crate::auth_server) claims: Map<String, Value>,
}

impl Person {
    /// Keeps the claims that are about the person; `None` if they are too large.
    pub(in crate::auth_server) fn new(subject: String, claims: Map<String, Value>) -> Option<Self> {
        let claims: Map<_, _> =
            claims.into_iter().filter(|(name, _)| !TOKEN_CLAIMS.contains(&name.as_str())).collect();
        let size = serde_json::to_string(&claims).map_or(usize::MAX, |text| text.len());
        (size <= MAX_CLAIM_BYTES).then_some(Self { subject, claims })
    }
}
