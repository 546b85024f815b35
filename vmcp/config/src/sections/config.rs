//! [`Config`]: the configuration as the rest of the product sees it, validated and complete.

pub(crate) mod effective;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::audit::Audit;
use super::incoming_auth::authz::Authz;
use super::incoming_auth::decision_point::DecisionPoint;
use super::incoming_auth::webhooks::Webhooks;
use url::Url;
use vmcp_workflow::CompositeTool;

use super::backend::known_secrets::KnownSecrets;
use super::backend::outgoing_auth::{Credentials, OAuthClient};
use super::backend::{Backend, Transport};
use super::incoming_auth::IncomingAuth;
use super::operational::Operational;
use super::optimizer::Optimizer;
use super::optimizer::code::Code;
use super::profiles::Profile;
use super::proxy::Proxy;
use super::rate_limiting::RateLimiting;
use super::server::Server;
use super::telemetry::Telemetry;
use crate::rules::Aggregation;
use crate::rules::trusted_tools::TrustedTools;
use effective::{EffectiveConfig, EffectiveSetting};

/// Paths of the settings that a server reads at its start only: a change of any other takes effect while it
/// runs, and so does a new certificate in place of the one that `server.tls` had. A path that names a block
/// stands for everything in it, except `telemetry.traceUrl`.
pub const SETTINGS_AT_START: [&str; 12] = [
    "server.listen",
    "server.adminListen",
    "server.eventsListen",
    "server.tls",
    "server.maxConnections",
    "server.receiveTimeout",
    "server.writeTimeout",
    "server.allowedHosts",
    "server.allowedOrigins",
    "optimizer.storage",
    "telemetry",
    "operational.logLevel",
];

/// Validated configuration. Two that are equal behave alike; a reload compares the parts to see what changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// MCP servers behind this one, in the order of the file.
    pub backends: Vec<Backend>,
    /// Reason and remedy for each backend that is switched off because a reference of its settings has no
    /// value, such as an unset environment variable.
    pub unavailable: BTreeMap<Arc<str>, String>,
    /// Names and visibility of tools in the one list that clients see.
    pub aggregation: Aggregation,
    /// find_tool, call_tool and the tools that `tools/list` shows.
    pub optimizer: Optimizer,
    /// Connections to backends.
    pub proxy: Proxy,
    /// Traces and metrics.
    pub telemetry: Telemetry,
    /// Audit events; `None`: none are written.
    pub audit: Option<Audit>,
    /// Authentication of clients.
    pub incoming_auth: IncomingAuth,
    /// Policies about calls; `None`: an admitted client may do everything.
    pub authz: Option<Arc<Authz>>,
    /// Service that decides about calls after the policies; `None`: the policies decide alone.
    pub decision_point: Option<Arc<DecisionPoint>>,
    /// Backends that may not ask clients anything (`questions: false`).
    pub silent_backends: BTreeSet<Arc<str>>,
    /// Names of the headers of clients that some backend gets, in lower case.
    pub passthrough_headers: BTreeSet<String>,
    /// Log level and circuit breaker.
    pub operational: Operational,
    /// Parts of the catalog under paths of their own, by name.
    pub profiles: BTreeMap<Arc<str>, Profile>,
    /// Tools whose steps call other tools.
    pub composite_tools: Vec<Arc<CompositeTool>>,
    /// Limits of scripts.
    pub code: Code,
    /// Limits on calls of tools.
    pub rate_limiting: RateLimiting,
    /// Services that are asked about calls of tools.
    pub webhooks: Webhooks,
    /// Listening addresses and limits on clients.
    pub server: Server,
    /// Content of the file of `server.trustedToolsPath`, which the reader of the configuration file adds.
    pub trusted_tools: Arc<TrustedTools>,
    /// The configuration in force, as people read it.
    pub(crate) effective: EffectiveConfig,
}

impl Config {
    /// Returns the configuration in force as YAML of the file's shape: defaults filled in, secrets masked.
    pub fn effective_yaml(&self) -> &str {
        self.effective.yaml()
    }

    /// Returns every setting in force with its source, secrets masked. Options of the command line, such as
    /// `--listen`, lie outside of it.
    ///
    /// # Examples
    ///
    /// ```
    /// use vmcp_config::SettingSource;
    ///
    /// let loaded = vmcp_config::load("operational: { logLevel: debug }", "vmcp.yaml", &|_| None)?;
    /// let settings = loaded.config.effective_settings();
    /// let of = |path: &str| settings.iter().find(|setting| setting.path == path).map(|it| &it.source);
    /// assert_eq!(of("operational.logLevel"), Some(&SettingSource::File));
    /// assert_eq!(of("server.listen"), Some(&SettingSource::Default));
    /// # Ok::<(), vmcp_config::Problems>(())
    /// ```
    pub fn effective_settings(&self) -> Vec<EffectiveSetting> {
        self.effective.settings()
    }

    /// Returns every secret of the file and of the values that it refers to.
    pub fn known_secrets(&self) -> &KnownSecrets {
        &self.effective.secrets
    }

    /// Returns true if a backend uses a login when there is one.
    pub fn uses_logins(&self) -> bool {
        self.backends.iter().any(|backend| login_url(backend).is_some())
    }

    /// Notes the logins: `login` returns when a person signed in to the backend of that name at that URL.
    /// Backends with a login are equal to others no more, so that a login takes effect like any other change.
    pub fn sign_in(&mut self, login: impl Fn(&str, &Url) -> Option<u64>) {
        for backend in &mut self.backends {
            let Some(url) = login_url(backend) else { continue };
            let Some(at) = login(&backend.name, url) else { continue };
            let client = match &backend.credentials {
                Credentials::OAuth(client) => client.clone(),
                _ => OAuthClient::default(),
            };
            backend.credentials = Credentials::OAuth(OAuthClient { signed_in_at: Some(at), ..client });
        }
    }
}

/// Returns the URL to which a person may sign in.
fn login_url(backend: &Backend) -> Option<&Url> {
    if !matches!(backend.credentials, Credentials::Automatic | Credentials::OAuth(_)) {
        return None;
    }
    match &backend.transport {
        Transport::Http { url, .. } | Transport::Sse { url, .. } => Some(url),
        // OAuth discovers its server over HTTP, at the address of the resource.
        Transport::WebSocket { .. } | Transport::Stdio { .. } => None,
    }
}
