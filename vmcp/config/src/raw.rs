//! The file as a whole, as written: the root of the generated JSON schema. Nothing after
//! [`load`](crate::load) sees these types.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problems::{self, Report};
use crate::rules::Aggregation;
use crate::sections::aggregation;
pub use crate::sections::aggregation::{
    RawAggregation, RawAnnotations, RawOverride, RawStrategy, RawStrategyConfig, RawToolRules, RawVisibility,
};
pub use crate::sections::audit::RawAudit;
use crate::sections::backend::outgoing_auth::OutgoingRules;
pub use crate::sections::backend::outgoing_auth::{
    RawAwsSts, RawClientCredentials, RawCredentials, RawCredentialsType, RawHeaderInjection, RawOAuth,
    RawOnBehalfOf, RawOutgoingAuth, RawOutgoingAuthSource, RawPassthrough, RawRoleMapping, RawTokenExchange,
    RawUpstreamInject, RawXaa,
};
use crate::sections::backend::{self, SharedBackendSettings, Transport};
pub use crate::sections::backend::{RawBackend, RawCodex, RawCommand, RawTransport};
use crate::sections::composite_tools;
use crate::sections::config::Config;
use crate::sections::config::effective::EffectiveConfig;
pub use crate::sections::incoming_auth::api_keys::RawApiKey;
pub use crate::sections::incoming_auth::auth_server::{
    RawAuthServer, RawFieldMapping, RawOAuth2Upstream, RawOidcUpstream, RawTokenLifespans,
    RawUpstreamProvider, RawUpstreamType, RawUserInfo,
};
pub use crate::sections::incoming_auth::authz::{RawAuthz, RawAuthzType};
pub use crate::sections::incoming_auth::decision_point::RawDecisionPoint;
pub use crate::sections::incoming_auth::oidc::RawOidc;
pub use crate::sections::incoming_auth::source_naming::RawSourceGroups;
pub use crate::sections::incoming_auth::tool_scopes::RawToolScope;
pub use crate::sections::incoming_auth::webhooks::{RawWebhook, RawWebhooks};
pub use crate::sections::incoming_auth::{RawIncomingAuth, RawIncomingAuthType};
pub use crate::sections::operational::{
    RawCircuitBreaker, RawFailureHandling, RawOperational, RawPartialFailureMode, RawTimeouts,
};
use crate::sections::optimizer::Exposure;
pub use crate::sections::optimizer::code::RawCode;
pub use crate::sections::optimizer::code::job::{RawCodeEngine, RawCodeJob, RawStartFailure};
pub use crate::sections::optimizer::contextual::RawContextual;
pub use crate::sections::optimizer::embeddings::{RawEmbeddings, RawLocal, RawOpenAi, RawProvider, RawTei};
pub use crate::sections::optimizer::learning::RawLearning;
pub use crate::sections::optimizer::llm::RawLlm;
use crate::sections::optimizer::optim_tool::OptimTool;
pub use crate::sections::optimizer::rerank::RawRerank;
pub use crate::sections::optimizer::search::RawSearch;
pub use crate::sections::optimizer::session_hooks::RawSessionHooks;
pub use crate::sections::optimizer::session_hooks::webhooks::RawSessionWebhook;
pub use crate::sections::optimizer::{RawOptimizer, RawStorage, StorageType};
use crate::sections::profiles;
pub use crate::sections::profiles::RawProfile;
pub use crate::sections::proxy::RawProxy;
pub use crate::sections::rate_limiting::RawRateLimiting;
pub use crate::sections::rate_limiting::session_storage::{RawSessionStorage, RawStorageProvider};
pub use crate::sections::server::RawServer;
pub use crate::sections::telemetry::{RawSignal, RawTelemetry};
pub use crate::values::decimal::RawDecimal;
pub use crate::values::duration::RawDuration;
pub use vmcp_workflow::raw::RawCompositeTool;

/// Header in which clients send keys of `incomingAuth.apiKeys`.
const API_KEY_HEADER: &str = "x-api-key";

/// Configuration of a vmcp server. Every key is optional. Strings may refer to the environment, `${NAME}`,
/// to files, `${file:/path}`, and to stored secrets, `${secret:NAME}`, each with an optional default,
/// `${NAME:-default}`; `$$` is a dollar sign. Durations are written `30s`, `1m30s`, `500ms`; a bare number is
/// seconds.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Config")]
pub struct RawConfig {
    /// MCP servers behind this one, at most 10,000.
    pub backends: Vec<RawBackend>,
    /// Names and visibility of tools in the one list that clients see.
    pub aggregation: RawAggregation,
    /// find_tool and call_tool in place of hundreds of tool definitions. On by default.
    pub optimizer: RawOptimizer,
    /// Connections to backends: when, how long, how often.
    pub proxy: RawProxy,
    /// Traces and metrics.
    pub telemetry: RawTelemetry,
    /// Authentication of clients.
    pub incoming_auth: RawIncomingAuth,
    /// Embedded authorization server: a person signs in through vmcp at identity providers, whose tokens
    /// backends get by `upstreamInject`. Default: none.
    pub auth_server: Option<RawAuthServer>,
    /// Credentials for backends besides their constant `headers`.
    pub outgoing_auth: RawOutgoingAuth,
    /// Names of headers of a client's request that every backend with a `url` gets unchanged;
    /// `Authorization`, cookies and headers of the protocol are not among them.
    pub passthrough_headers: Vec<String>,
    /// Audit events: a line for each call and each client that is turned away.
    pub audit: RawAudit,
    /// Logging, time limits of single backends, failure handling.
    pub operational: RawOperational,
    /// Parts of the catalog under paths of their own, `/mcp/NAME`, for clients that need no more than that.
    /// At most 64. They are for order and short lists, and no protection: `/mcp` leads to all.
    pub profiles: BTreeMap<String, RawProfile>,
    /// Composite tools: their steps call other tools, ask the user, and loop over lists. At most 1,000.
    pub composite_tools: Vec<RawCompositeTool>,
    /// Limits of scripts (code mode).
    pub code: RawCode,
    /// Limits on calls of tools, by token buckets. None by default.
    pub rate_limiting: RawRateLimiting,
    /// The store that replicas share, for the buckets of `rateLimiting`.
    pub session_storage: RawSessionStorage,
    /// HTTP services that may change, deny or answer calls of tools. Default: none.
    pub webhooks: RawWebhooks,
    /// Listening addresses, limits on clients, graceful shutdown.
    pub server: RawServer,
}

impl RawConfig {
    /// Validates all sections. With problems in the report, the result must not be used.
    pub(crate) fn validate(&self, effective: EffectiveConfig, report: &mut Report) -> Config {
        let names: BTreeSet<&str> =
            self.backends.iter().filter_map(|backend| backend.name.as_deref()).collect();
        let timeouts = &self.operational.timeouts;
        self.check_names_of_backends(&names, report);
        if self.backends.is_empty() && !report.is_dropped("backends") {
            report.warn(
                "backends",
                "there are none",
                "add one, or import those of another client by `vmcp init --from FILE`",
            );
        }
        let (has_tls, has_auth_server) = (self.server.tls.is_some(), self.auth_server.is_some());
        let mut incoming_auth = self.incoming_auth.validate(has_tls, has_auth_server, &names, report);
        let auth_server = self.auth_server.as_ref();
        let auth_server =
            auth_server.and_then(|raw| raw.validate(&self.server.session_keys, &mut incoming_auth, report));
        // A login of one person must not serve other people by itself.
        let is_one_person = incoming_auth.is_anonymous();
        let passthrough = &self.passthrough_headers;
        let outgoing = OutgoingRules::new(&self.outgoing_auth, passthrough, &names, is_one_person, report);
        let outgoing = outgoing.with_upstreams(auth_server.as_ref(), self.auth_server.is_some(), report);
        let proxy = self.proxy.validate(timeouts.default.as_ref(), report);
        let shared = SharedBackendSettings {
            preconnect: self.proxy.preconnect_servers.iter().map(String::as_str).collect(),
            per_workload: &timeouts.per_workload,
            max_tool_timeout: proxy.max_tool_timeout,
            outgoing,
        };
        let server = self.server.validate(report);
        // Replicas that have peers stand behind a balancer, which decides who reaches them.
        if !server.listen.ip().is_loopback() && server.peers.is_empty() {
            self.incoming_auth.warn_of_open_port(report);
        }
        self.optimizer.session_hooks.check_readers(is_one_person, &server, report);
        let telemetry = self.telemetry.validate(report);
        let (backends, unavailable) = backend::validate(&self.backends, &shared, report);
        for (index, backend) in backends.iter().enumerate() {
            if let Transport::Http { url, .. } = &backend.transport {
                backend::check_own_address(url, &server, &problems::item("backends", index), report);
            }
        }
        incoming_auth.auth_server = auth_server.map(|mut server| {
            for backend in &backends {
                backend.credentials.carry_upstream_token(&mut server);
            }
            Arc::new(server)
        });
        let read_only = self.backends.iter().filter(|backend| backend.read_only);
        let read_only = read_only.filter_map(|backend| backend.name.as_deref()).map(Arc::from).collect();
        let silent = self.backends.iter().filter(|backend| !backend.questions);
        let silent_backends = silent.filter_map(|backend| backend.name.as_deref()).map(Arc::from).collect();
        let point = self.incoming_auth.decision_point.as_ref();
        let decision_point = point.and_then(|point| point.validate(&self.incoming_auth.authz, report));
        let exposures = self.profiles.values().filter_map(|profile| profile.exposure);
        let has_contextual =
            exposures.chain([self.optimizer.exposure]).any(|exposure| exposure == Exposure::Contextual);
        let passthrough_headers: BTreeSet<String> =
            backends.iter().flat_map(|backend| backend.passthrough_headers.iter().cloned()).collect();
        if !incoming_auth.api_keys.is_empty() && passthrough_headers.contains(API_KEY_HEADER) {
            report.problem(
                "passthroughHeaders",
                format!("`{API_KEY_HEADER}` holds the keys of this server's own clients (incomingAuth.apiKeys)"),
                "remove it here and in `outgoingAuth`, and give the backend a key of its own in its `headers`",
            );
        }
        let mut optimizer = self.optimizer.validate(has_contextual, report);
        if !self.proxy.enabled {
            optimizer.tools.retain(|tool| !OptimTool::OF_PROXY.contains(tool));
            if self.optimizer.enabled {
                self.check_without_proxy(&optimizer.tools, report);
            }
        }
        let has_scripts = optimizer.tools.iter().any(|tool| OptimTool::OF_SCRIPTS.contains(tool));
        let learns = self.optimizer.learning.enabled != Some(false);
        Config {
            backends,
            unavailable,
            aggregation: Aggregation { read_only, ..self.aggregation.validate(&names, report) },
            optimizer,
            proxy,
            audit: self.audit.validate(&telemetry, report),
            telemetry,
            authz: self.incoming_auth.authz.validate(&incoming_auth, report).map(Arc::new),
            decision_point: decision_point.map(Arc::new),
            incoming_auth,
            silent_backends,
            passthrough_headers,
            operational: self.operational.validate(report),
            profiles: profiles::validate(&self.profiles, &names, report),
            composite_tools: composite_tools::validate(&self.composite_tools, report),
            code: self.code.validate(has_scripts && learns, report),
            rate_limiting: self.rate_limiting.validate(&self.session_storage, report),
            webhooks: self.webhooks.validate(&self.incoming_auth.authz, &names, report),
            server,
            trusted_tools: Arc::default(),
            effective,
        }
    }

    /// Checks the own tools that `proxy.enabled: false` leaves, and the settings that need the others.
    fn check_without_proxy(&self, left: &[OptimTool], report: &mut Report) {
        let wanted = &self.optimizer.tools;
        if left.is_empty() && !wanted.is_empty() {
            let remedy = "name another tool there, or set `optimizer.enabled: false`";
            report.problem("proxy.enabled", "false leaves no tool of `optimizer.tools`", remedy);
        }
        if self.optimizer.discovery.rest_api && wanted.contains(&OptimTool::CallTool) {
            let message = "its calls go through call_tool, which `proxy.enabled: false` takes away";
            report.problem("optimizer.discovery.restApi", message, "remove one of the two");
        }
    }

    /// Checks the names of backends in sections that do not know the others.
    fn check_names_of_backends(&self, names: &BTreeSet<&str>, report: &mut Report) {
        for (index, name) in self.proxy.preconnect_servers.iter().enumerate() {
            let path = problems::item("proxy.preconnectServers", index);
            aggregation::check_backend(name, &path, names, report);
        }
        for name in self.operational.timeouts.per_workload.keys() {
            let path = problems::key("operational.timeouts.perWorkload", name);
            aggregation::check_backend(name, &path, names, report);
        }
    }
}
