//! The file as a whole, as written. Nothing downstream of [`super::load`] sees these types.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use super::aggregation::{
    RawAggregation, RawAnnotations, RawOverride, RawStrategy, RawStrategyConfig, RawToolRules, RawVisibility,
};
use super::backend::{self, Elsewhere};
pub use super::backend::{RawBackend, RawCommand, RawTransport};
pub use super::duration::RawDuration;
pub use super::embeddings::{RawEmbeddings, RawLocal, RawOpenAi, RawProvider, RawTei};
pub use super::incoming_auth::{RawIncomingAuth, RawIncomingAuthType};
pub use super::operational::{
    RawCircuitBreaker, RawFailureHandling, RawOperational, RawPartialFailureMode, RawTimeouts,
};
pub use super::optimizer::{RawOptimizer, RawStorage, StorageType};
use super::problems::{self, Report};
pub use super::proxy::RawProxy;
pub use super::scalar::RawDecimal;
pub use super::search::RawSearch;
pub use super::server::RawServer;
pub use super::telemetry::RawTelemetry;
use super::{Config, aggregation};

/// Configuration of a vmcp server. Every key is optional. Strings may refer to the environment, `${NAME}`,
/// `${NAME:-default}`, and to files, `${file:/path}`; `$$` is a dollar sign. Durations are written `30s`, `1m30s`, `500ms`; a bare number is seconds.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Config")]
pub struct RawConfig {
    /// The MCP servers behind this one.
    pub backends: Vec<RawBackend>,
    /// How the tools of many backends become one list.
    pub aggregation: RawAggregation,
    /// find_tool and call_tool in place of hundreds of tool definitions. On by default.
    pub optimizer: RawOptimizer,
    /// Connections to backends.
    pub proxy: RawProxy,
    /// Traces and metrics.
    pub telemetry: RawTelemetry,
    /// Who may call.
    pub incoming_auth: RawIncomingAuth,
    /// Logging, time-outs by backend, what happens when backends fail.
    pub operational: RawOperational,
    /// The listening sockets.
    pub server: RawServer,
}

impl RawConfig {
    /// Validates everything; with problems in the report, the result is not to be used.
    pub(crate) fn lower(&self, report: &mut Report) -> Config {
        let names: BTreeSet<&str> =
            self.backends.iter().filter_map(|backend| backend.name.as_deref()).collect();
        let timeouts = &self.operational.timeouts;
        for (index, name) in self.proxy.preconnect_servers.iter().enumerate() {
            let path = problems::item("proxy.preconnectServers", index);
            aggregation::check_backend(name, &path, &names, report);
        }
        for name in timeouts.per_workload.keys() {
            let path = problems::key("operational.timeouts.perWorkload", name);
            aggregation::check_backend(name, &path, &names, report);
        }
        if self.backends.is_empty() && !report.is_dropped("backends") {
            report.warn(
                "backends",
                "there are none",
                "add one, or import those of another client by `vmcp init --from FILE`",
            );
        }
        let proxy = self.proxy.lower(timeouts.default.as_ref(), report);
        let elsewhere = Elsewhere {
            preconnect: self.proxy.preconnect_servers.iter().map(String::as_str).collect(),
            per_workload: &timeouts.per_workload,
            max_tool_timeout: proxy.max_tool_timeout,
        };
        Config {
            backends: backend::lower(&self.backends, &elsewhere, report),
            aggregation: self.aggregation.lower(&names, report),
            optimizer: self.optimizer.lower(report),
            proxy,
            telemetry: self.telemetry.lower(report),
            incoming_auth: self.incoming_auth.lower(),
            operational: self.operational.lower(report),
            server: self.server.lower(report),
            effective: super::effective::render(self, &report.references),
        }
    }
}
