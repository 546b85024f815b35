//! `proxy`: connections to backends: lazy or at start, retried with exponential backoff, refreshed on a
//! timer, and the time-outs of tool calls.

use std::ops::RangeInclusive;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problems::Report;
use crate::values::duration::{self, MAX_DURATION, RawDuration};

/// Range of every time-out, from 1 ms to 24 h; a value outside of it is a mistake.
pub(crate) const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(1)..=MAX_DURATION;
/// Range of `refreshInterval`, from 1 s to 24 h: a shorter one would list backends without pause.
const REFRESH_INTERVAL: RangeInclusive<Duration> = Duration::from_secs(1)..=MAX_DURATION;
/// Range of `idleTimeout`, up to 24 h; 0 stops nothing.
pub(crate) const IDLE_TIMEOUT: RangeInclusive<Duration> = Duration::ZERO..=MAX_DURATION;

/// Range of `firstListWait`: a client may give up on a list that takes longer.
const FIRST_LIST_WAIT: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_mins(1);

/// Connections to backends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    /// Connects a backend whose definitions are cached on first use, or some seconds after the start; every
    /// other backend is connected at start.
    pub lazy_connect: bool,
    /// Longest time after a start for which lists, searches and calls wait for backends that are starting.
    pub first_list_wait: Duration,
    /// Time limit of one connection attempt.
    pub connection_timeout: Duration,
    /// Attempts after a failed first one; after them the backend counts as failed.
    pub max_connection_retries: u32,
    /// Time limit of a tool call, unless the backend or the caller sets another. Progress notifications
    /// restart it, up to `max_tool_timeout`.
    pub tool_timeout: Duration,
    /// Upper limit of every tool call, whoever sets its time-out and however much progress it reports.
    pub max_tool_timeout: Duration,
    /// Interval at which a backend's definitions are listed again.
    pub refresh_interval: Duration,
    /// Time without a call after which a program that starts quickly is stopped until the next one; zero:
    /// never.
    pub idle_timeout: Duration,
    /// True: programs that package runners installed are started in place of their runners.
    pub pin_packages: bool,
}

/// Connections to backends.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Proxy")]
pub struct RawProxy {
    /// Offer the tools that look up and call tools and resources of backends by name: `call_tool`,
    /// `list_tools`, `get_tool_schema`, `list_mcp_servers` and `read_mcp_resource`. `false`: they are
    /// left out of `optimizer.tools`. Listed tools, searches and scripts stay.
    pub enabled: bool,
    /// Connect a backend on its first use when its definitions are cached, or some seconds after the start,
    /// to list them again. Backends without a cached listing are always connected at start. `false`: connect
    /// all at start.
    pub lazy_connect: bool,
    /// Longest time after a start for which lists, searches and calls of unknown tools wait for backends that
    /// are starting, so that a client that lists once sees them. A URL gets twice the time of the slowest URL
    /// that answered, a program all of it. `0s`: requests wait for nothing.
    #[schemars(extend("x-range" = duration::words(&FIRST_LIST_WAIT)))]
    pub first_list_wait: RawDuration,
    /// Names of backends to connect at start in spite of `lazyConnect`. In `vmcp.yaml`, a name that is not in
    /// `backends` is a mistake.
    pub preconnect_servers: Vec<String>,
    /// Time limit of one connection attempt. Beyond it, the attempt has failed and the next one follows.
    #[schemars(extend("x-range" = duration::words(&TIMEOUT)))]
    pub connection_timeout: RawDuration,
    /// Attempts after a failed first one, with exponential backoff (1, 2, 4, 8, then 16 seconds apart). After
    /// the last, the backend counts as failed and is tried again on use and on a timer.
    #[schemars(range(max = 100))]
    pub max_connection_retries: u32,
    /// Time limit of a tool call; beyond it, the caller gets a time-out error. Progress notifications restart
    /// it, up to `maxToolTimeout`. `operational.timeouts.default` overrides it.
    #[schemars(extend("x-range" = duration::words(&TIMEOUT)))]
    pub tool_timeout: RawDuration,
    /// Upper limit of every tool call, whatever its progress. A backend's `timeout` above it is a mistake.
    #[schemars(extend("x-range" = duration::words(&TIMEOUT)))]
    pub max_tool_timeout: RawDuration,
    /// Interval at which a backend's definitions are listed again. A backend that announces a change is
    /// listed at once.
    #[schemars(extend("x-range" = duration::words(&REFRESH_INTERVAL)))]
    pub refresh_interval: RawDuration,
    /// Stop programs (backends with `command`) after this time without a call; their tools stay listed, and
    /// the next call starts them again. A program loses what it keeps in memory. `0`: never. An `idleTimeout`
    /// of the backend alone stops a program that takes more than 10 seconds to start, or has `preconnect`.
    #[schemars(extend("x-range" = duration::words(&IDLE_TIMEOUT)))]
    pub idle_timeout: RawDuration,
    /// Start the programs of `npx`, `npm exec`, `uvx`, `uv tool run`, `pnpm dlx` and `bunx` in place of these
    /// runners, which hold up to 120 MB each: once a runner has started its program, later starts run the
    /// program itself, in the same version, until `vmcp update`. `false`: the runner starts its program each
    /// time, and may take another version.
    pub pin_packages: bool,
}

impl Default for RawProxy {
    fn default() -> Self {
        Self {
            enabled: true,
            lazy_connect: true,
            first_list_wait: "2s".into(),
            preconnect_servers: Vec::new(),
            connection_timeout: "30s".into(),
            max_connection_retries: 3,
            tool_timeout: "60s".into(),
            max_tool_timeout: "10m".into(),
            refresh_interval: "300s".into(),
            idle_timeout: "30m".into(),
            pin_packages: true,
        }
    }
}

impl RawProxy {
    /// Validates the section; `default_timeout` is `operational.timeouts.default`, which overrides
    /// `proxy.toolTimeout`.
    pub(crate) fn validate(&self, default_timeout: Option<&RawDuration>, report: &mut Report) -> Proxy {
        let max_tool_timeout = self.max_tool_timeout.validate("proxy.maxToolTimeout", &TIMEOUT, report);
        let (path, tool_timeout) = match default_timeout {
            Some(timeout) => ("operational.timeouts.default", timeout),
            None => ("proxy.toolTimeout", &self.tool_timeout),
        };
        Proxy {
            lazy_connect: self.lazy_connect,
            first_list_wait: self.first_list_wait.validate("proxy.firstListWait", &FIRST_LIST_WAIT, report),
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
            idle_timeout: self.idle_timeout.validate("proxy.idleTimeout", &IDLE_TIMEOUT, report),
            pin_packages: self.pin_packages,
        }
    }
}

/// Returns `timeout`, and reports a problem at `path` if it exceeds `max_tool_timeout`
/// (`proxy.maxToolTimeout`).
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
