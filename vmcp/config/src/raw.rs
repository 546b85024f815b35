//! The file as a whole, as written. Nothing downstream of [`super::load`] sees these types.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Config;
use crate::problems::{self, Report};
use crate::sections::aggregation;
pub use crate::sections::aggregation::{
    RawAggregation, RawAnnotations, RawOverride, RawStrategy, RawStrategyConfig, RawToolRules, RawVisibility,
};
use crate::sections::backend::{self, SharedBackendSettings};
pub use crate::sections::backend::{RawBackend, RawCommand, RawTransport};
pub use crate::sections::embeddings::{RawEmbeddings, RawLocal, RawOpenAi, RawProvider, RawTei};
pub use crate::sections::incoming_auth::{RawIncomingAuth, RawIncomingAuthType};
pub use crate::sections::operational::{
    RawCircuitBreaker, RawFailureHandling, RawOperational, RawPartialFailureMode, RawTimeouts,
};
pub use crate::sections::optimizer::{RawOptimizer, RawStorage, StorageType};
pub use crate::sections::proxy::RawProxy;
pub use crate::sections::search::RawSearch;
pub use crate::sections::server::RawServer;
pub use crate::sections::telemetry::RawTelemetry;
pub use crate::values::decimal::RawDecimal;
pub use crate::values::duration::RawDuration;

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
    pub(crate) fn validate(&self, effective_yaml: String, report: &mut Report) -> Config {
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
        let proxy = self.proxy.validate(timeouts.default.as_ref(), report);
        let shared = SharedBackendSettings {
            preconnect: self.proxy.preconnect_servers.iter().map(String::as_str).collect(),
            per_workload: &timeouts.per_workload,
            max_tool_timeout: proxy.max_tool_timeout,
        };
        Config {
            backends: backend::validate(&self.backends, &shared, report),
            aggregation: self.aggregation.validate(&names, report),
            optimizer: self.optimizer.validate(report),
            proxy,
            telemetry: self.telemetry.validate(report),
            incoming_auth: self.incoming_auth.validate(),
            operational: self.operational.validate(report),
            server: self.server.validate(report),
            effective_yaml,
        }
    }
}
