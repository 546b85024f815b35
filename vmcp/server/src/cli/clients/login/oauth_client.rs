//! vmcp as an OAuth client: its name, the addresses that it shows and sends, and the tokens that it gets.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use url::Url;
use vmcp_access::outgoing::OutgoingError;
use vmcp_access::outgoing::logins::Login;
use vmcp_config::addresses::ReachableAddresses;

use crate::cli::console::failure::CommandFailure;

/// Name under which the client is registered; servers show it to the person.
pub(super) const CLIENT_NAME: &str = "vmcp";

/// The answer of the token endpoint to a device code.
#[derive(Deserialize)]
pub(super) struct TokenAnswer {
    pub(super) access_token: String,
    #[serde(default)]
    pub(super) refresh_token: Option<String>,
    #[serde(default, deserialize_with = "seconds")]
    pub(super) expires_in: Option<u64>,
}

/// Reads a number of seconds; some servers send a text or a decimal. Others count as not told.
pub(super) fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
    Ok(number.filter(|seconds| *seconds >= 0.0).map(|seconds| seconds as u64))
}

impl TokenAnswer {
    /// Returns the login to store.
    pub(super) fn into_login(
        self,
        token_url: Url,
        client_id: String,
        client_secret: Option<String>,
        resource: String,
        addresses: ReachableAddresses,
    ) -> Login {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        Login {
            token_url,
            client_id,
            client_secret,
            resource,
            access_token: self.access_token,
            refresh_token: self.refresh_token,
            expires_at: self.expires_in.map(|seconds| now.saturating_add(seconds)),
            addresses,
        }
    }
}

/// The `resource` parameter of the authorization request, which renewals repeat.
pub(super) fn resource(address: &str) -> Option<String> {
    let pairs: HashMap<_, _> = Url::parse(address).ok()?.query_pairs().into_owned().collect();
    pairs.get("resource").cloned()
}

/// Returns the origin of a URL, which messages show in its place: a path or a query may be secret.
pub(super) fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Returns the failure of a login for want of a token.
pub(super) fn not_signed_in(OutgoingError { reason, detail }: OutgoingError) -> CommandFailure {
    CommandFailure::new(format!("cannot sign in: {reason} ({detail})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_life_of_a_token_is_read_however_it_is_written() {
        let life = |json: &str| {
            let answer: TokenAnswer = serde_json::from_str(json).unwrap();
            answer.expires_in
        };
        for written in ["3600", "\"3600\"", "3600.5", "\" 3600 \""] {
            assert_eq!(life(&format!(r#"{{"access_token":"a","expires_in":{written}}}"#)), Some(3600));
        }
        for untold in ["null", "\"never\"", "-1", "{}"] {
            assert_eq!(life(&format!(r#"{{"access_token":"a","expires_in":{untold}}}"#)), None);
        }
        assert_eq!(life(r#"{"access_token":"a"}"#), None);
    }
}
