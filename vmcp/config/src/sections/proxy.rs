//! `proxy`: when backends are connected, how long they may take, how often they are listed (GOB-15…24, GMT-23, X-18).

use std::ops::RangeInclusive;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problems::Report;
use crate::values::duration::{self, MAX_DURATION, RawDuration};

/// What any time-out may be.
pub(crate) const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(1)..=MAX_DURATION;
/// How often backends may be listed anew.
const REFRESH_INTERVAL: RangeInclusive<Duration> = Duration::from_secs(1)..=MAX_DURATION;

/// Connections to backends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    /// A backend whose definitions are cached is connected on first use only.
    pub lazy_connect: bool,
    /// Longest connection attempt.
    pub connection_timeout: Duration,
    /// Attempts after the first failed one, before the backend counts as failed.
    pub max_connection_retries: u32,
    /// Longest tool call, unless the backend or the caller says otherwise. Progress resets it, up to `max_tool_timeout`.
    pub tool_timeout: Duration,
    /// Longest tool call that anyone may ask for.
    pub max_tool_timeout: Duration,
    /// How often a backend's definitions are listed anew.
    pub refresh_interval: Duration,
}

/// Connections to backends.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Proxy")]
pub struct RawProxy {
    /// Connect a backend on first use when its definitions are cached; others are connected once, to learn them.
    pub lazy_connect: bool,
    /// Names of backends to connect at start all the same.
    pub preconnect_servers: Vec<String>,
    /// Longest connection attempt.
    #[schemars(extend("x-range" = duration::words(&TIMEOUT)))]
    pub connection_timeout: RawDuration,
    /// Attempts after the first failed one, 1, 2, 4, … 16 seconds apart.
    #[schemars(range(max = 100))]
    pub max_connection_retries: u32,
    /// Longest tool call. `operational.timeouts.default`, where given, wins.
    #[schemars(extend("x-range" = duration::words(&TIMEOUT)))]
    pub tool_timeout: RawDuration,
    /// Longest tool call that a backend's `timeout` or a caller may ask for.
    #[schemars(extend("x-range" = duration::words(&TIMEOUT)))]
    pub max_tool_timeout: RawDuration,
    /// How often a backend's definitions are listed anew, besides when it says that they changed.
    #[schemars(extend("x-range" = duration::words(&REFRESH_INTERVAL)))]
    pub refresh_interval: RawDuration,
}

impl Default for RawProxy {
    fn default() -> Self {
        Self {
            lazy_connect: true,
            preconnect_servers: Vec::new(),
            connection_timeout: "30s".into(),
            max_connection_retries: 3,
            tool_timeout: "60s".into(),
            max_tool_timeout: "10m".into(),
            refresh_interval: "300s".into(),
        }
    }
}

impl RawProxy {
    /// `default_timeout` is `operational.timeouts.default`.
    pub(crate) fn validate(&self, default_timeout: Option<&RawDuration>, report: &mut Report) -> Proxy {
        let max_tool_timeout = self.max_tool_timeout.validate("proxy.maxToolTimeout", &TIMEOUT, report);
        let (path, tool_timeout) = match default_timeout {
            Some(timeout) => ("operational.timeouts.default", timeout),
            None => ("proxy.toolTimeout", &self.tool_timeout),
        };
        Proxy {
            lazy_connect: self.lazy_connect,
            connection_timeout: self.connection_timeout.validate("proxy.connectionTimeout", &TIMEOUT, report),
            max_connection_retries: self.max_connection_retries,
            tool_timeout: cap_timeout(
                max_tool_timeout,
                path,
                tool_timeout.validate(path, &TIMEOUT, report),
                report,
            ),
            max_tool_timeout,
            refresh_interval: self.refresh_interval.validate(
                "proxy.refreshInterval",
                &REFRESH_INTERVAL,
                report,
            ),
        }
    }
}

/// The time-out at `path`, which must not exceed `proxy.maxToolTimeout`.
pub(crate) fn cap_timeout(most: Duration, path: &str, timeout: Duration, report: &mut Report) -> Duration {
    if timeout > most {
        let (timeout, most) = (duration::format(timeout), duration::format(most));
        report.problem(
            path,
            format!("{timeout} is longer than `proxy.maxToolTimeout`, {most}"),
            "shorten it, or raise `proxy.maxToolTimeout`",
        );
    }
    timeout
}
