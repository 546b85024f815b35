//! `server.consoleSignIn`: the OpenID provider at which people sign in to the web console, and their roles.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::problems::{self, Report, required};
use crate::sections::incoming_auth::auth_server::{RawOidcUpstream, Upstream, is_loopback, oidc_upstream};
use crate::values::http_url;
use crate::values::secret::Secret;

/// Path of the section.
const PATH: &str = "server.consoleSignIn";
/// Path of the console's redirect URI, below its origin.
const CALLBACK: &str = "/console/oidc/callback";
/// Claim that has a person's roles, unless the section names another.
const DEFAULT_ROLE_CLAIM: &str = "groups";

/// Sign-in of people to the web console at an OpenID provider, by authorization code with PKCE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleSignIn {
    /// The provider, with vmcp as its client.
    pub provider: Arc<Upstream>,
    /// Redirect URI that is registered at the provider.
    pub redirect_uri: Url,
    /// Claim of the ID token, by name or path, that has a person's roles.
    pub role_claim: String,
    /// Values of the claim of people who read and give orders.
    pub operators: Vec<String>,
    /// Values of the claim of people who read.
    pub viewers: Vec<String>,
}

/// Sign-in of people to the web console at an OpenID provider, for `server.console: oidc`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ConsoleSignIn")]
pub struct RawConsoleSignIn {
    /// Required. Issuer, exactly as in its metadata and ID tokens.
    #[schemars(required)]
    pub issuer_url: Option<String>,
    /// Required. Client identifier of the console at the provider.
    #[schemars(required)]
    pub client_id: Option<String>,
    /// Client secret. Default: none, a public client with PKCE.
    pub client_secret: Option<Secret>,
    /// Required. Redirect URI registered at the provider: the address at which browsers reach the admin port,
    /// with the path `/console/oidc/callback`, behind the path at which a proxy serves it.
    #[schemars(required)]
    pub redirect_uri: Option<String>,
    /// Scopes to ask for. Default: `openid`.
    pub scopes: Vec<String>,
    /// Claim of the ID token, by name or path, that has a person's roles. Default: `groups`.
    pub role_claim: Option<String>,
    /// Values of the claim of operators, who read and give orders.
    pub operators: Vec<String>,
    /// Values of the claim of viewers, who read. A person with neither value is refused.
    pub viewers: Vec<String>,
    /// Reach the provider over plain HTTP too. For development.
    pub insecure_allow_http: bool,
    /// Reach the provider at private and loopback addresses too, such as one in the cluster.
    #[serde(rename = "allowPrivateIPs")]
    pub allow_private_ips: bool,
}

impl RawConsoleSignIn {
    /// Returns true if people reach the console from other machines: its redirect URI names no loopback host.
    pub(super) fn is_for_other_machines(&self) -> bool {
        let url = self.redirect_uri.as_ref().and_then(|text| Url::parse(text).ok());
        url.is_some_and(|url| !is_loopback(&url))
    }

    /// Validates the section; `None` after a problem was reported.
    pub(super) fn validate(&self, report: &mut Report) -> Option<ConsoleSignIn> {
        let redirect_uri = required(self.redirect_uri.as_ref(), PATH, "redirectUri", report)
            .and_then(|text| redirect_uri(text, report));
        if self.operators.is_empty() && self.viewers.is_empty() {
            report.problem(
                &problems::key(PATH, "operators"),
                "neither `operators` nor `viewers` has a value: no person could read the console",
                "name a value of the claim, such as a group of your provider",
            );
        }
        let raw = RawOidcUpstream {
            issuer_url: self.issuer_url.clone(),
            client_id: self.client_id.clone(),
            client_secret: self.client_secret.clone(),
            redirect_uri: None,
            scopes: if self.scopes.is_empty() { vec!["openid".to_owned()] } else { self.scopes.clone() },
            subject_claim: None,
            additional_authorization_params: BTreeMap::new(),
            insecure_allow_http: self.insecure_allow_http,
            allow_private_ips: self.allow_private_ips,
        };
        let provider = oidc_upstream("console", &raw, PATH, report);
        let role_claim = self.role_claim.clone().filter(|claim| !claim.is_empty());
        Some(ConsoleSignIn {
            provider: Arc::new(provider?),
            redirect_uri: redirect_uri?,
            role_claim: role_claim.unwrap_or_else(|| DEFAULT_ROLE_CLAIM.to_owned()),
            operators: self.operators.clone(),
            viewers: self.viewers.clone(),
        })
    }
}

/// Checks that a redirect URI is that of the console: else the provider would send people elsewhere.
fn redirect_uri(text: &str, report: &mut Report) -> Option<Url> {
    let at = problems::key(PATH, "redirectUri");
    let url = http_url::validate(text, &at, report)?;
    if !url.path().ends_with(CALLBACK) || url.query().is_some() || url.fragment().is_some() {
        report.problem(
            &at,
            format!("its path does not end with `{CALLBACK}`"),
            format!("write the address of the admin port with that path, such as `https://vmcp.example.com{CALLBACK}`"),
        );
        return None;
    }
    Some(url)
}

#[cfg(test)]
mod tests {
    use crate::load;

    const WHOLE: &str = "issuerUrl: https://login.example.com, clientId: vmcp, operators: [platform]";

    fn checked(console: &str, sign_in: &str) -> Result<crate::Config, String> {
        let tokens = "adminTokens: [a token of enough characters]";
        let text = format!("server: {{ console: {console}, {tokens}, consoleSignIn: {{ {sign_in} }} }}");
        load(&text, "vmcp.yaml", &|_| None)
            .map(|loaded| loaded.config)
            .map_err(|problems| problems.to_string())
    }

    #[test]
    fn a_whole_section_has_its_defaults() {
        let redirect = "redirectUri: \"https://vmcp.example.com/console/oidc/callback\"";
        let config = checked("oidc", &format!("{WHOLE}, {redirect}")).unwrap();
        let sign_in = config.server.console_sign_in.unwrap();
        assert_eq!(
            (sign_in.role_claim.as_str(), &*sign_in.provider.scopes),
            ("groups", &["openid".to_owned()][..])
        );
        assert_eq!((sign_in.operators.as_slice(), sign_in.viewers.len()), (&["platform".to_owned()][..], 0));
    }

    #[test]
    fn a_proxy_may_serve_the_console_below_a_path() {
        let redirect = "redirectUri: \"https://vmcp.example.com/ops/console/oidc/callback\"";
        let config = checked("oidc", &format!("{WHOLE}, {redirect}")).unwrap();
        let sign_in = config.server.console_sign_in.as_ref().unwrap();
        assert_eq!(sign_in.redirect_uri.path(), "/ops/console/oidc/callback");
    }

    #[test]
    fn what_is_missing_or_leads_elsewhere_is_named() {
        let redirect = "redirectUri: \"https://vmcp.example.com/console/oidc/callback\"";
        for (console, sign_in, expected) in [
            ("oidc", WHOLE.to_owned(), "server.consoleSignIn.redirectUri"),
            (
                "oidc",
                format!("{WHOLE}, redirectUri: \"https://vmcp.example.com/elsewhere\""),
                "/console/oidc/callback",
            ),
            (
                "oidc",
                format!("issuerUrl: \"http://login.example.com\", clientId: x, viewers: [a], {redirect}"),
                "issuerUrl",
            ),
            (
                "oidc",
                format!("issuerUrl: https://login.example.com, clientId: x, {redirect}"),
                "consoleSignIn.operators",
            ),
            ("oidc", format!("issuerUrl: https://login.example.com, viewers: [a], {redirect}"), "clientId"),
        ] {
            let refused = checked(console, &sign_in).unwrap_err();
            assert!(refused.contains(expected), "{sign_in}: {refused}");
        }
        let refused = load("server: { console: oidc }", "vmcp.yaml", &|_| None).map(drop);
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("server.consoleSignIn"), "{refused}");
    }

    #[test]
    fn a_console_for_other_machines_needs_admin_tokens() {
        for (origin, is_accepted) in [
            ("https://vmcp.example.com", false),
            ("http://10.0.0.7:9090", false),
            ("http://localhost:9090", true),
            ("http://127.0.0.1:9090", true),
            ("http://[::1]:9090", true),
        ] {
            let redirect = format!("redirectUri: \"{origin}/console/oidc/callback\"");
            let text = format!("server: {{ console: oidc, consoleSignIn: {{ {WHOLE}, {redirect} }} }}");
            let loaded =
                load(&text, "vmcp.yaml", &|_| None).map(drop).map_err(|problems| problems.to_string());
            assert_eq!(loaded.is_ok(), is_accepted, "{origin}: {loaded:?}");
            if let Err(refused) = loaded {
                assert!(refused.contains("server.adminTokens"), "{origin}: {refused}");
            }
        }
    }
}
