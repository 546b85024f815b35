//! [`TracedCall`]: everything that is kept about one call, for `vmcp trace`.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::call_entry::{CallEntry, RecentCall};
use crate::telemetry::calls::{CallRecord, Origin};

/// Hex digits of a W3C trace id.
const TRACE_DIGITS: usize = 32;

/// Calls that a person asks about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WantedCall {
    /// The call with this number.
    Number(u64),
    /// Calls of this W3C trace.
    Trace([u8; 16]),
}

impl WantedCall {
    /// Reads a number, also with `#` before it, or a trace id of 32 hex digits; `None` for other texts.
    pub fn parse(text: &str) -> Option<WantedCall> {
        let mut id = [0; 16];
        if text.len() == TRACE_DIGITS {
            return hex::decode_to_slice(text, &mut id).ok().map(|()| WantedCall::Trace(id));
        }
        text.strip_prefix('#').unwrap_or(text).parse().ok().map(WantedCall::Number)
    }

    pub(super) fn is(&self, entry: &CallEntry) -> bool {
        match self {
            WantedCall::Number(number) => entry.number == *number,
            WantedCall::Trace(id) => entry.record.trace.as_ref() == Some(id),
        }
    }
}

/// A call that has ended, with everything that is kept about it. No arguments; of a failure the first 300
/// characters, which may quote them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TracedCall {
    /// The call as lists show it.
    #[serde(flatten)]
    pub call: RecentCall,
    /// True for a call that vmcp made within another call of the answer: a step, a call of a script, an
    /// alternative to a failed tool. Told by caller and time.
    pub within: bool,
    /// Time of its begin, RFC 3339.
    pub begun: String,
    /// The tool's own name at its backend.
    pub original: Option<String>,
    /// Subject of the caller, or `anonymous`.
    pub who: String,
    /// Network address of the caller.
    pub address: Option<String>,
    /// The profile whose path the caller used.
    pub profile: Option<String>,
    /// The operator who called as the caller, from the console.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// The policy that decided.
    pub policy: Option<String>,
    /// SHA-256 of the policies that decided.
    pub policy_version: Option<String>,
    /// Effects of webhooks: the name, a colon, the effect.
    pub webhooks: Vec<String>,
    /// `not_sent`, `sent` or `unknown`: tells whether the backend may have executed the call.
    pub transmission: String,
    /// Transport to the backend, `tcp` or `pipe`.
    pub transport: Option<String>,
    /// Requests to the backend.
    pub requests: u32,
    /// Milliseconds during which the backend had a request.
    pub backend_ms: f64,
    /// First 300 characters of a failure's text, as the backend wrote it; they may quote arguments.
    pub error: Option<String>,
    /// Code of the backend's JSON-RPC error.
    pub error_code: Option<i64>,
    /// True if the answer is a question to the client, or a task.
    pub pending: bool,
    /// SHA-256 of the arguments, if the audit log asks for it.
    pub arguments_sha256: Option<String>,
    /// W3C trace id, if the client sent one.
    pub trace_id: Option<String>,
}

impl CallEntry {
    fn begun(&self) -> SystemTime {
        self.at.checked_sub(self.record.took).unwrap_or(self.at)
    }

    /// True if vmcp made this call for the caller of `outer` and during it.
    pub(super) fn is_within(&self, outer: &CallEntry) -> bool {
        let inner =
            matches!(self.record.origin, Origin::Step | Origin::Script | Origin::Fallback | Origin::Internal);
        inner
            && self.number != outer.number
            && self.record.principal.key() == outer.record.principal.key()
            && self.begun() >= outer.begun()
            && self.at <= outer.at
    }

    pub(super) fn traced(&self, within: bool) -> TracedCall {
        let CallRecord { principal, policy, policy_version, webhooks, tool, .. } = &self.record;
        let effects = webhooks.iter().map(|effect| format!("{}: {}", effect.webhook, effect.effect));
        TracedCall {
            call: self.shown(),
            within,
            begun: humantime::format_rfc3339_millis(self.begun()).to_string(),
            original: tool.as_ref().map(|tool| tool.definition.name.clone()),
            who: principal.identity.subject().to_owned(),
            address: principal.address.map(|address| address.to_string()),
            profile: principal.profile.as_deref().map(str::to_owned),
            operator: principal.operator.as_deref().map(str::to_owned),
            policy: policy.as_ref().map(|policy| policy.as_str().to_owned()),
            policy_version: policy_version.as_deref().filter(|it| !it.is_empty()).map(str::to_owned),
            webhooks: effects.collect(),
            transmission: self.record.transmission.as_str().to_owned(),
            transport: self.record.network.as_ref().map(|network| network.transport.to_owned()),
            requests: self.record.requests,
            backend_ms: self.record.backend_took.as_secs_f64() * 1e3,
            error: self.record.error.as_deref().map(str::to_owned),
            error_code: self.record.error_code,
            pending: self.record.pending,
            arguments_sha256: self.record.arguments_digest.map(hex::encode),
            trace_id: self.record.trace.map(hex::encode),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::RecentCalls;
    use super::*;
    use crate::access::identity::{Identity, Principal};
    use crate::telemetry::calls::{CallObserver as _, Outcome};

    fn record(who: &str, origin: Origin, took: Duration) -> CallRecord {
        let identity = Identity::known("https://issuer.example", who, serde_json::Map::new(), None);
        let begun = CallRecord::begin(Principal::from(identity), None, origin);
        CallRecord { took, outcome: Outcome::Ok, ..begun }
    }

    #[test]
    fn a_call_is_found_by_its_number_with_the_calls_within_it() {
        let calls = RecentCalls::default();
        let (short, long) = (Duration::from_millis(1), Duration::from_secs(5));
        calls.keep(&mut record("alice", Origin::Step, short));
        calls.keep(&mut record("bob", Origin::Step, short));
        calls.keep(&mut record("alice", Origin::CallTool, short));
        calls.keep(&mut CallRecord { trace: Some([7; 16]), ..record("alice", Origin::Client, long) });
        let numbers = |text: &str| {
            let found = calls.traced(&WantedCall::parse(text).unwrap());
            found.iter().map(|it| (it.call.id.unwrap(), it.within)).collect::<Vec<_>>()
        };
        assert_eq!(numbers("3"), [(0, true), (3, false)], "neither another's nor a call of the client");
        assert_eq!(numbers("#1"), [(1, false)]);
        assert_eq!(numbers(&"07".repeat(16)), [(0, true), (3, false)]);
        assert!(numbers("99").is_empty());
        assert_eq!(WantedCall::parse("twelve"), None);
        assert_eq!(WantedCall::parse(&"zz".repeat(16)), None);
    }
}
