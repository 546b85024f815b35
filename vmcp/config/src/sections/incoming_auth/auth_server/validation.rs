//! Validates `authServer`, and joins it with `incomingAuth`, which accepts its tokens.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use url::{Host, Url};

use super::raw::{ACCESS_LIFE, CODE_LIFE, REFRESH_LIFE, RawAuthServer};
use super::{AuthServer, upstream};
use crate::problems::{self, Report, required};
use crate::sections::incoming_auth::IncomingAuth;
use crate::sections::incoming_auth::oidc::OidcIssuer;
use crate::sections::incoming_auth::token_binding::TokenBinding;
use crate::values::http_url;
use crate::values::secret::{self, Secret};

/// Fewest characters of a secret that seals.
const MIN_SECRET_CHARS: usize = 32;
/// Most providers: a person signs in at each, and their tokens travel in one header.
const MAX_PROVIDERS: usize = 8;
/// Path of the section.
const PATH: &str = "authServer";
/// Tolerance of the times in tokens of vmcp's own, for replicas whose clocks differ.
const CLOCK_SKEW: Duration = Duration::from_secs(10);

impl RawAuthServer {
    /// Validates the section and adds its issuer to `incoming`, unless a block of `incomingAuth` has it.
    /// `session_keys` seal if the section has no secrets.
    pub(crate) fn validate(
        &self,
        session_keys: &[Secret],
        incoming: &mut IncomingAuth,
        report: &mut Report,
    ) -> Option<AuthServer> {
        let lifespans = &self.token_lifespans;
        let mut life = |key: &str, raw: &crate::values::duration::RawDuration, range| {
            raw.validate(&format!("{PATH}.tokenLifespans.{key}"), range, report)
        };
        let access_life = life("accessTokenLifespan", &lifespans.access_token_lifespan, &ACCESS_LIFE);
        let refresh_life = life("refreshTokenLifespan", &lifespans.refresh_token_lifespan, &REFRESH_LIFE);
        let code_life = life("authCodeLifespan", &lifespans.auth_code_lifespan, &CODE_LIFE);
        self.check_secrets(report);
        let upstreams = self.upstreams(report);
        let issuer = required(self.issuer.as_ref(), PATH, "issuer", report)?.clone();
        let issuer_url = self.issuer_url(&issuer, report)?;
        let own = issuer_block(&issuer, &issuer_url, incoming)?;
        if own.introspection.is_some() || own.required_binding != TokenBinding::None {
            report.problem(
                &problems::key(PATH, "issuer"),
                "tokens of this server are neither introspected nor bound to a key",
                "remove `introspectionUrl` and `requiredBinding` from its block of `incomingAuth`",
            );
        }
        let resource = own.resource.clone().or_else(|| below(&issuer_url, "/mcp"))?;
        let sealing_secrets =
            if self.hmac_secrets.is_empty() { session_keys.to_vec() } else { self.hmac_secrets.clone() };
        Some(AuthServer {
            issuer,
            issuer_url,
            signing_keys: self.signing_keys.clone(),
            sealing_secrets,
            access_life,
            refresh_life,
            code_life,
            upstreams,
            audience: own.audience.clone(),
            resource,
            scopes: own.scopes.clone(),
            access_tokens_of: BTreeSet::new(),
            id_tokens_of: BTreeSet::new(),
        })
    }

    fn check_secrets(&self, report: &mut Report) {
        for (index, secret) in self.hmac_secrets.iter().enumerate() {
            if secret.expose().chars().count() < MIN_SECRET_CHARS {
                report.problem(
                    &problems::item("authServer.hmacSecrets", index),
                    format!("shorter than {MIN_SECRET_CHARS} characters"),
                    "use the output of `openssl rand -base64 32`, through a file",
                );
            } else if let Some(weakness) = secret::weakness(secret) {
                // The key set shows the public half of a key that is derived from it: guesses can be tried
                // without this server.
                report.problem(
                    &problems::item("authServer.hmacSecrets", index),
                    format!("can be guessed: {weakness}"),
                    "use the output of `openssl rand -base64 32`, through a file",
                );
            }
        }
    }

    fn upstreams(&self, report: &mut Report) -> Vec<Arc<super::Upstream>> {
        let at = problems::key(PATH, "upstreamProviders");
        if self.upstream_providers.is_empty() && !report.is_dropped(&at) {
            report.problem(
                &at,
                "missing: nobody could sign in",
                "add a provider of `type: oidc` or `oauth2`",
            );
        }
        if self.upstream_providers.len() > MAX_PROVIDERS {
            report.problem(&at, format!("more than {MAX_PROVIDERS}"), "name fewer providers");
        }
        let mut names = BTreeSet::new();
        let mut upstreams = Vec::new();
        for (index, raw) in self.upstream_providers.iter().take(MAX_PROVIDERS).enumerate() {
            let path = problems::item(&at, index);
            let Some(upstream) = upstream::validate(raw, index == 0, &path, report) else { continue };
            if !names.insert(upstream.name.clone()) {
                report.problem(&problems::key(&path, "name"), "given twice", "choose another name");
            }
            upstreams.push(Arc::new(upstream));
        }
        upstreams
    }

    fn issuer_url(&self, issuer: &str, report: &mut Report) -> Option<Url> {
        let path = problems::key(PATH, "issuer");
        let url = http_url::validate(issuer, &path, report)?;
        if issuer.ends_with('/') || url.query().is_some() {
            report.problem(&path, "an issuer has no query and no slash at its end", "remove it");
        }
        if url.scheme() == "http" && !is_loopback(&url) && !self.insecure_allow_http {
            report.problem(
                &path,
                "tokens would travel unencrypted",
                "use https, or allow it by `insecureAllowHttp: true`",
            );
        }
        Some(url)
    }
}

/// Returns the block of `incomingAuth` that accepts the tokens; adds one where there is none.
fn issuer_block(issuer: &str, issuer_url: &Url, incoming: &mut IncomingAuth) -> Option<Arc<OidcIssuer>> {
    if let Some(own) = incoming.issuers.iter().find(|known| known.issuer == issuer) {
        return Some(Arc::clone(own));
    }
    let resource = below(issuer_url, "/mcp")?;
    let audience = resource.as_str().to_owned();
    let own = Arc::new(OidcIssuer {
        resource: Some(resource),
        insecure_allow_http: issuer_url.scheme() == "http",
        ..OidcIssuer::new(issuer.to_owned(), issuer_url.clone(), audience, CLOCK_SKEW)
    });
    incoming.issuers.insert(0, Arc::clone(&own));
    Some(own)
}

/// Returns the URL of a path below the issuer.
fn below(issuer: &Url, path: &str) -> Option<Url> {
    Url::parse(&format!("{}{path}", issuer.as_str().trim_end_matches('/'))).ok()
}

/// Returns true for a URL whose host is `localhost`, below it, or a loopback address.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(host)) => host == "localhost" || host.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}
