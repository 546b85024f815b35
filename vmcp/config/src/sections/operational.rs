//! `operational`: logging, time-outs by backend, what happens when backends fail (GOB-20, R022-30).

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problems::Report;
use crate::sections::proxy::TIMEOUT;
use crate::values::duration::{self, MAX_DURATION, RawDuration};

/// How long a breaker may stay open.
const OPEN_DURATION: RangeInclusive<Duration> = Duration::from_secs(1)..=MAX_DURATION;

/// Operation and failure handling. The time-outs of the file are in [`super::Proxy`] and [`super::Backend`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operational {
    /// Least severe log line that is written, unless the command line or the environment says otherwise.
    pub log_level: LogLevel,
    /// Fails calls at once while a backend is known to be broken.
    pub circuit_breaker: CircuitBreaker,
}

/// When calls to a broken backend fail without being tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CircuitBreaker {
    /// Off: every call is tried.
    pub enabled: bool,
    /// Consecutive failures that open it.
    pub failure_threshold: u32,
    /// How long it stays open before one call is let through as a probe.
    pub timeout: Duration,
}

/// Severity of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Everything, for development.
    Trace,
    /// What helps to find out why.
    Debug,
    /// What an operator wants to know.
    Info,
    /// What degrades something.
    Warn,
    /// What failed.
    Error,
}

impl LogLevel {
    /// As written in the file.
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

/// What an unreachable backend means to the others: nothing, and nothing else is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "PartialFailureMode")]
pub enum RawPartialFailureMode {
    /// Go on with those that are reachable.
    BestEffort,
}

/// Operation and failure handling.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Operational")]
pub struct RawOperational {
    /// Least severe log line that is written.
    pub log_level: LogLevel,
    /// Time-outs of tool calls.
    pub timeouts: RawTimeouts,
    /// What happens when backends fail.
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

/// Time-outs of tool calls.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Timeouts")]
pub struct RawTimeouts {
    /// For every backend; the same as `proxy.toolTimeout`, which it overrides.
    #[schemars(extend("x-range" = duration::words(&TIMEOUT)))]
    pub default: Option<RawDuration>,
    /// For single backends, by name; the same as `timeout` in `backends`.
    #[schemars(extend("x-range" = duration::words(&TIMEOUT)))]
    pub per_workload: BTreeMap<String, RawDuration>,
}

/// What happens when backends fail.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "FailureHandling")]
pub struct RawFailureHandling {
    /// What an unreachable backend means to the others. Only `best_effort` so far.
    pub partial_failure_mode: RawPartialFailureMode,
    /// Fails calls at once while a backend is known to be broken.
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

/// Fails calls at once while a backend is known to be broken.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "CircuitBreaker")]
pub struct RawCircuitBreaker {
    /// `false`: every call is tried.
    pub enabled: bool,
    /// Consecutive failures that open it.
    #[schemars(range(min = 1, max = 1000))]
    pub failure_threshold: u32,
    /// How long it stays open before one call is let through as a probe.
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
        let RawFailureHandling { partial_failure_mode: RawPartialFailureMode::BestEffort, circuit_breaker } =
            &self.failure_handling;
        let path = "operational.failureHandling.circuitBreaker.timeout";
        Operational {
            log_level: self.log_level,
            circuit_breaker: CircuitBreaker {
                enabled: circuit_breaker.enabled,
                failure_threshold: circuit_breaker.failure_threshold,
                timeout: circuit_breaker.timeout.validate(path, &OPEN_DURATION, report),
            },
        }
    }
}
