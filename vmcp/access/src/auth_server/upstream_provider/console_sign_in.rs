//! [`ConsoleSignIn`]: sign-in of a person to the web console at an OpenID provider, by authorization code
//! with PKCE.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};
use url::Url;
use vmcp_config::ConsoleSignIn as Config;

use super::{Brought, UpstreamError, UpstreamProvider};
use crate::identity::claim_path;
use crate::oidc::key_source::Timing;

/// The provider of one configuration.
#[derive(Debug)]
pub struct ConsoleSignIn {
    config: Arc<Config>,
    provider: UpstreamProvider,
}

/// Texts of one attempt to sign in: each is random, and bound to the browser in which the attempt began.
#[derive(Clone, PartialEq, Eq)]
pub struct SignInAttempt {
    /// Value that the provider sends back with the code.
    pub state: String,
    /// Value that the ID token repeats.
    pub nonce: String,
    /// Secret of PKCE, 43 to 128 unreserved characters.
    pub verifier: String,
}

impl fmt::Debug for SignInAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignInAttempt").finish_non_exhaustive()
    }
}

/// Role of a person at the console.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsoleRole {
    /// Reads.
    Viewer,
    /// Reads, and gives orders.
    Operator,
}

/// A person who has signed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedInPerson {
    /// Subject at the provider.
    pub subject: String,
    /// Role; `None`: the person may not read the console.
    pub role: Option<ConsoleRole>,
}

/// A sign-in that failed; the text has no token.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct SignInError(String);

impl From<UpstreamError> for SignInError {
    fn from(error: UpstreamError) -> SignInError {
        SignInError(error.to_string())
    }
}

impl ConsoleSignIn {
    /// Begins to fetch the keys of ID tokens, so it needs a tokio runtime.
    pub fn start(config: Arc<Config>) -> ConsoleSignIn {
        let provider = UpstreamProvider::start(Arc::clone(&config.provider), Timing::default());
        ConsoleSignIn { config, provider }
    }

    /// Returns the configuration.
    pub fn config(&self) -> &Arc<Config> {
        &self.config
    }

    /// Returns the URL at which a person signs in. Fails if the provider cannot be asked for its endpoints.
    pub async fn authorization_url(&self, attempt: &SignInAttempt) -> Result<Url, SignInError> {
        let SignInAttempt { state, nonce, verifier } = attempt;
        let redirect_uri = self.config.redirect_uri.as_str();
        Ok(self.provider.authorization_url(redirect_uri, state, verifier, nonce).await?)
    }

    /// Exchanges a code; `issuer` is the parameter `iss` of the answer (RFC 9207). The ID token is verified,
    /// with its nonce.
    pub async fn finish(
        &self,
        attempt: &SignInAttempt,
        code: &str,
        issuer: Option<&str>,
    ) -> Result<SignedInPerson, SignInError> {
        let brought = Brought {
            code,
            issuer,
            verifier: &attempt.verifier,
            nonce: &attempt.nonce,
            redirect_uri: self.config.redirect_uri.as_str(),
        };
        let signed_in = self.provider.sign_in(brought).await?;
        let subject =
            signed_in.subject.ok_or_else(|| SignInError("its ID token has no subject".to_owned()))?;
        let role = role(&self.config, &signed_in.claims);
        Ok(SignedInPerson { subject, role })
    }
}

/// Returns the role of a person with these claims; who is both is an operator.
fn role(config: &Config, claims: &Map<String, Value>) -> Option<ConsoleRole> {
    let has = |values: &[String]| claim_path::has_one_of(claims, &config.role_claim, values);
    if has(&config.operators) {
        return Some(ConsoleRole::Operator);
    }
    has(&config.viewers).then_some(ConsoleRole::Viewer)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config() -> Config {
        let text = "server: { console: oidc, adminTokens: [a token of enough characters], \
                    consoleSignIn: { issuerUrl: https://login.example.com, clientId: x, \
                    redirectUri: \"https://vmcp.example.com/console/oidc/callback\", roleClaim: realm.roles, \
                    operators: [platform], viewers: [staff, platform] } }";
        let loaded = vmcp_config::load(text, "vmcp.yaml", &|_| None).map_err(|problems| problems.to_string());
        let config = loaded.unwrap().config;
        Config::clone(&config.server.console_sign_in.unwrap())
    }

    #[test]
    fn a_role_is_what_the_claim_gives_and_a_stranger_has_none() {
        let config = config();
        let of = |roles: Value| {
            let claims = json!({"sub": "ann", "realm": {"roles": roles}});
            role(&config, claims.as_object().unwrap())
        };
        assert_eq!(of(json!(["staff"])), Some(ConsoleRole::Viewer));
        assert_eq!(of(json!("platform")), Some(ConsoleRole::Operator), "both: the greater one");
        for stranger in [json!(["other"]), json!([]), json!(null), json!({"staff": true}), json!("Staff")] {
            assert_eq!(of(stranger.clone()), None, "{stranger}");
        }
    }
}
