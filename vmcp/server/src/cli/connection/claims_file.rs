//! [`ClaimsFile`]: the claims of a client, for commands that act for it.

use std::fs;
use std::str::FromStr;

use serde_json::{Map, Value};

use vmcp_engine::access::identity::Identity;

/// The claims in a file: the payload of a token, as JSON.
#[derive(Debug, Clone)]
pub(in crate::cli) struct ClaimsFile(Map<String, Value>);

impl FromStr for ClaimsFile {
    type Err = String;

    fn from_str(path: &str) -> Result<ClaimsFile, String> {
        let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
        let claims: Map<String, Value> =
            serde_json::from_str(&text).map_err(|error| format!("not a JSON object of claims: {error}"))?;
        match claims.get("sub") {
            Some(Value::String(_)) => Ok(ClaimsFile(claims)),
            _ => Err("the claims have no `sub`, which names the client".to_owned()),
        }
    }
}

impl ClaimsFile {
    /// Returns the claims.
    pub(in crate::cli) fn claims(&self) -> &Map<String, Value> {
        &self.0
    }

    /// Returns the identity with these claims.
    pub(in crate::cli) fn into_identity(self) -> Identity {
        let text = |name: &str| self.0.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (issuer, subject) = (text("iss"), text("sub"));
        Identity::known(&issuer, &subject, self.0, None)
    }
}
