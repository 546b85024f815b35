//! `operational`: log level, time-outs of single backends, and the circuit breaker.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problems::Report;
use crate::sections::proxy::TIMEOUT;
use crate::values::duration::{self, MAX_DURATION, RawDuration};

/// Range of the time that a circuit breaker stays open, from 1 s to 24 h.
const OPEN_DURATION: RangeInclusive<Duration> = Duration::from_secs(1)..=MAX_DURATION;

/// Log level and circuit breaker. The time-outs of the section are validated into
/// [`Proxy`](super::proxy::Proxy) and [`Backend`](super::backend::Backend).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operational {
    /// Least severe level of log lines that are written, unless the command line or the environment sets
    /// another.
    pub log_level: LogLevel,
    /// True: the server is ready only while all its backends are.
    pub needs_all_backends: bool,
    /// Circuit breaker of each backend.
    pub circuit_breaker: CircuitBreaker,
}

/// Settings of the circuit breaker that each backend has: after `failure_threshold` consecutive failures,
/// calls fail at once for `timeout`; then one call is let through as a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CircuitBreaker {
    /// False: every call is sent.
    pub enabled: bool,
    /// Consecutive failures that open the breaker.
    pub failure_threshold: u32,
    /// Time that the breaker stays open before one call is let through as a probe.
    pub timeout: Duration,
}

/// Level of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Every step, for development.
    Trace,
    /// Details that help to find a cause.
    Debug,
    /// Events that an operator wants to see.
    Info,
    /// Events that degrade the service.
    Warn,
    /// Failures.
    Error,
}

impl LogLevel {
    /// Returns the level as it is written in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// Effect of an unreachable backend on the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "PartialFailureMode")]
pub enum RawPartialFailureMode {
    /// Serve the backends that are reachable.
    BestEffort,
    /// Not ready while a backend is not: `GET /readyz` answers 503 and names it, so that Kubernetes sends no
    /// client here.
    Fail,
}

/// Logging, time-outs of single backends, failure handling.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Operational")]
pub struct RawOperational {
    /// Least severe level of log lines that are written. The command line and the environment override it.
    pub log_level: LogLevel,
    /// Time limits of tool calls.
    pub timeouts: RawTimeouts,
    /// Handling of backends that fail.
    pub failure_handling: RawFailureHandling,
}

impl Default for RawOperational {
    fn default() -> Self {
        Self {
            log_level: LogLevel::Info,
            timeouts: RawTimeouts::default(),
            failure_handling: RawFailureHandling::default(),
        }
    }
}

/// Time limits of tool calls.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Timeouts")]
pub struct RawTimeouts {
    /// Time limit of a tool call to any backend; overrides `proxy.toolTimeout`.
    #[schemars(extend("x-range" = duration::words(&TIMEOUT)))]
    pub default: Option<RawDuration>,
    /// Time limits of tool calls to single backends, by the backend's name; the same as `timeout` in
    /// `backends`, and a mistake if both are given.
    #[schemars(extend("x-range" = duration::words(&TIMEOUT)))]
    pub per_workload: BTreeMap<String, RawDuration>,
}

/// Handling of backends that fail.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "FailureHandling")]
pub struct RawFailureHandling {
    /// Effect of an unreachable backend on the others.
    pub partial_failure_mode: RawPartialFailureMode,
    /// Circuit breaker: fail calls at once while a backend is known to be broken.
    pub circuit_breaker: RawCircuitBreaker,
}

impl Default for RawFailureHandling {
    fn default() -> Self {
        Self {
            partial_failure_mode: RawPartialFailureMode::BestEffort,
            circuit_breaker: RawCircuitBreaker::default(),
        }
    }
}

/// Circuit breaker of each backend: after `failureThreshold` consecutive failures, calls fail at once for
/// `timeout`; then one call is let through as a probe.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "CircuitBreaker")]
pub struct RawCircuitBreaker {
    /// Use the circuit breaker. `false`: every call is sent, however many have failed.
    pub enabled: bool,
    /// Consecutive failures that open the breaker.
    #[schemars(range(min = 1, max = 1000))]
    pub failure_threshold: u32,
    /// Time that the breaker stays open before one call is let through as a probe. If the probe fails, the
    /// breaker opens again.
    #[schemars(extend("x-range" = duration::words(&OPEN_DURATION)))]
    pub timeout: RawDuration,
}

impl Default for RawCircuitBreaker {
    fn default() -> Self {
        Self { enabled: true, failure_threshold: 5, timeout: "30s".into() }
    }
}

impl RawOperational {
    pub(crate) fn validate(&self, report: &mut Report) -> Operational {
        let RawFailureHandling { partial_failure_mode, circuit_breaker } = &self.failure_handling;
        let path = "operational.failureHandling.circuitBreaker.timeout";
        Operational {
            log_level: self.log_level,
            needs_all_backends: *partial_failure_mode == RawPartialFailureMode::Fail,
            circuit_breaker: CircuitBreaker {
                enabled: circuit_breaker.enabled,
                failure_threshold: circuit_breaker.failure_threshold,
                timeout: circuit_breaker.timeout.validate(path, &OPEN_DURATION, report),
            },
        }
    }
}
