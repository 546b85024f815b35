//! `audit`: one event for each call and each client that is turned away, as a JSON line.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use super::telemetry::{SignalExport, Telemetry};
use crate::problems::{self, Report};

/// Types of events, with ToolHive's names.
pub const AUDIT_EVENT_TYPES: [&str; 10] = [
    "mcp_tool_call",
    "mcp_resource_read",
    "mcp_prompt_get",
    "mcp_completion",
    "mcp_request",
    "mcp_session",
    "http_request",
    "authorization",
    "admin",
    "server",
];
/// Port of syslog over UDP.
const SYSLOG_UDP_PORT: u16 = 514;
/// Port of syslog over TCP (RFC 6587).
const SYSLOG_TCP_PORT: u16 = 601;

/// Validated settings of audit events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audit {
    /// Name of this server in events.
    pub component: String,
    /// Collector that gets the events as log records.
    pub otlp: Option<OtlpTarget>,
    /// File that gets the events; `None`: standard output, unless a collector gets them.
    pub log_file: Option<PathBuf>,
    /// True if standard output gets the events beside other targets.
    pub stdout: bool,
    /// Syslog server that gets the events.
    pub syslog: Option<SyslogTarget>,
    /// True if a call is not made unless its begin is on record.
    pub fail_closed: bool,
    /// Size beyond which the file is renamed and another one begun.
    pub max_file_bytes: u64,
    /// Renamed files that are kept; the oldest one is deleted.
    pub max_files: u32,
    /// Types that are written, of [`AUDIT_EVENT_TYPES`].
    pub event_types: Vec<&'static str>,
    /// Most bytes of a call's arguments in its event; `None`: events have no arguments.
    pub argument_bytes: Option<usize>,
}

/// Collector of log records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpTarget {
    /// Destination of log records.
    pub export: SignalExport,
    /// Value of the resource attribute `service.name`.
    pub service_name: String,
    /// Attributes of the resource beside `service.name`.
    pub resource_attributes: BTreeMap<String, String>,
}

/// A syslog server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SyslogTarget {
    /// Datagrams (RFC 5426).
    Udp {
        /// Name or address.
        host: String,
        /// Port.
        port: u16,
    },
    /// Messages with octet counts (RFC 6587).
    Tcp {
        /// Name or address.
        host: String,
        /// Port.
        port: u16,
    },
    /// Datagrams at a socket of this machine.
    Unix {
        /// Path of the socket.
        path: PathBuf,
    },
}

impl SyslogTarget {
    /// Reads `udp://host:port`, `tcp://host:port` or `unix:///path`.
    fn parse(text: &str) -> Option<SyslogTarget> {
        let url = Url::parse(text).ok()?;
        let host = || {
            url.host_str()
                .filter(|host| !host.is_empty())
                .map(|host| host.trim_matches(['[', ']']).to_owned())
        };
        let is_plain = url.username().is_empty() && url.query().is_none() && url.fragment().is_none();
        match url.scheme() {
            _ if !is_plain => None,
            "udp" => Some(SyslogTarget::Udp { host: host()?, port: url.port().unwrap_or(SYSLOG_UDP_PORT) }),
            "tcp" => Some(SyslogTarget::Tcp { host: host()?, port: url.port().unwrap_or(SYSLOG_TCP_PORT) }),
            "unix" if url.host_str().unwrap_or_default().is_empty() && url.path().len() > 1 => {
                Some(SyslogTarget::Unix { path: url.path().into() })
            }
            _ => None,
        }
    }
}

/// Audit events: one JSON line for each call and each other action, with identity, item, decision and
/// outcome. A change takes effect at once.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Audit")]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct RawAudit {
    /// Write events.
    pub enabled: bool,
    /// Name of this server in events (`component`).
    pub component: String,
    /// Send events to the collector of `telemetry.endpoint`, or `telemetry.logs.endpoint`, too, as OTLP log
    /// records. Without `logFile` they go nowhere else.
    pub otlp: bool,
    /// File that gets the events; made if it is missing, readable by its owner only. Absent: standard output,
    /// or standard error where that belongs to a client (`vmcp serve --stdio`).
    pub log_file: Option<PathBuf>,
    /// Write events to standard output too, beside the other targets.
    pub stdout: bool,
    /// Send events to a syslog server too (RFC 5424): `udp://host:514`, `tcp://host:601` or
    /// `unix:///dev/log`.
    pub syslog: Option<String>,
    /// Make each call of a backend only after the event of its begin is written to the file, standard output
    /// and the syslog server. A call whose event cannot be written fails.
    pub fail_closed: bool,
    /// Size of the file at which it is renamed to `NAME.1`, and another one is begun.
    #[schemars(range(min = 65_536, max = 1_099_511_627_776_u64))]
    pub max_file_bytes: u64,
    /// Renamed files that are kept: `NAME.1` is the newest, and the oldest one is deleted.
    #[schemars(range(min = 1, max = 1000))]
    pub max_files: u32,
    /// Types of events to write; empty: all. Types are `mcp_tool_call`, `mcp_resource_read`,
    /// `mcp_prompt_get`, `mcp_completion`, `mcp_request` (tasks, subscriptions, extensions, `GET /tools`),
    /// `mcp_session` (begin, end, misuse), `http_request` (a request that is turned away before it is read),
    /// `authorization` (the authorization server), `admin` (orders of operators) and `server` (start, stop,
    /// configuration).
    pub event_types: Vec<String>,
    /// Types of events to leave out; wins over `eventTypes`.
    pub exclude_event_types: Vec<String>,
    /// Add the arguments of calls, which may be personal or secret.
    pub include_request_data: bool,
    /// Most bytes of arguments in an event; longer ones are cut.
    #[schemars(range(min = 1, max = 1_048_576))]
    pub max_data_size: usize,
}

impl Default for RawAudit {
    fn default() -> Self {
        Self {
            enabled: false,
            component: "vmcp".to_owned(),
            otlp: false,
            log_file: None,
            stdout: false,
            syslog: None,
            fail_closed: false,
            max_file_bytes: 100 << 20,
            max_files: 10,
            event_types: Vec::new(),
            exclude_event_types: Vec::new(),
            include_request_data: false,
            max_data_size: 1024,
        }
    }
}

impl RawAudit {
    /// Returns the settings, or `None` if no events are written.
    pub(crate) fn validate(&self, telemetry: &Telemetry, report: &mut Report) -> Option<Audit> {
        if self.otlp && telemetry.log_records.is_none() {
            report.problem(
                "audit.otlp",
                "there is nowhere to send events to",
                "add `telemetry.endpoint`, such as `http://localhost:4318`",
            );
        }
        let target = |export: &SignalExport| OtlpTarget {
            export: export.clone(),
            service_name: telemetry.service_name.clone(),
            resource_attributes: telemetry.resource_attributes.clone(),
        };
        let wanted = known(&self.event_types, "audit.eventTypes", report);
        let unwanted = known(&self.exclude_event_types, "audit.excludeEventTypes", report);
        let all = self.event_types.is_empty();
        let mut event_types = AUDIT_EVENT_TYPES.to_vec();
        event_types.retain(|name| (all || wanted.contains(name)) && !unwanted.contains(name));
        if self.enabled && event_types.is_empty() {
            report.warn("audit", "every type of event is left out", "shorten `excludeEventTypes`");
        }
        if self.log_file.as_ref().is_some_and(|file| file.file_name().is_none()) {
            report.problem(
                "audit.logFile",
                "not the path of a file",
                "write one such as `/var/log/vmcp/audit.jsonl`",
            );
        }
        let syslog = self.syslog.as_ref().and_then(|text| {
            let target = SyslogTarget::parse(text);
            if target.is_none() {
                let shown = report.shown("audit.syslog", text);
                let remedy = "write one such as `udp://syslog.example:514`, `tcp://syslog.example:601` or `unix:///dev/log`";
                report.problem("audit.syslog", format!("{shown} is no syslog server"), remedy);
            }
            target
        });
        if self.fail_closed && !self.enabled {
            report.problem("audit.failClosed", "no events are written", "add `audit.enabled: true`");
        }
        let only_otlp = self.otlp && self.log_file.is_none() && self.syslog.is_none() && !self.stdout;
        if self.fail_closed && only_otlp {
            report.problem(
                "audit.failClosed",
                "a collector does not confirm single events",
                "add `audit.logFile`, `audit.syslog` or `audit.stdout: true`",
            );
        }
        let calls = ["mcp_tool_call", "mcp_resource_read", "mcp_prompt_get", "mcp_completion", "mcp_request"];
        if self.fail_closed && !calls.iter().all(|kind| event_types.contains(kind)) {
            report.problem(
                "audit.failClosed",
                "events of some calls are left out",
                "remove `eventTypes` and `excludeEventTypes`",
            );
        }
        self.enabled.then(|| Audit {
            component: self.component.clone(),
            otlp: telemetry.log_records.as_ref().filter(|_| self.otlp).map(target),
            log_file: self.log_file.clone(),
            stdout: self.stdout,
            syslog,
            fail_closed: self.fail_closed,
            max_file_bytes: self.max_file_bytes,
            max_files: self.max_files,
            event_types,
            argument_bytes: self.include_request_data.then_some(self.max_data_size),
        })
    }
}

/// Returns the known types of a list. Others are warned about only: files of ToolHive name types that do not
/// occur here.
fn known<'a>(names: &'a [String], path: &str, report: &mut Report) -> Vec<&'a str> {
    for (index, name) in names.iter().enumerate() {
        if !AUDIT_EVENT_TYPES.contains(&name.as_str()) {
            let path = problems::item(path, index);
            let shown = report.shown(&path, name);
            let remedy = format!("types are {}", AUDIT_EVENT_TYPES.join(", "));
            report.warn(&path, format!("no event is of the type {shown}"), remedy);
        }
    }
    names.iter().map(String::as_str).collect()
}
