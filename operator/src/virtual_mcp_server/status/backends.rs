//! `status.discoveredBackends`: every member of the group, as the worst of the pods sees it.

use kube::ResourceExt as _;
use vmcp_config::status::{self as report, BackendStatus, BreakerPosition};
use vmcp_crds::MCPServer;
use vmcp_crds::mcp_server::MCPServerPhase;
use vmcp_crds::virtual_mcp_server::{BackendState, CircuitBreakerState, DiscoveredBackend};

use super::ObservedVirtualMCPServer;

/// The longest message in bytes; a longer one is cut off, and the pod's log has all of it.
const MAX_MESSAGE_BYTES: usize = 512;

/// The most bytes of `status.discoveredBackends`, 256 KiB: etcd takes objects of 1.5 MiB, and each change
/// writes the whole status.
const MAX_LIST_BYTES: usize = 256 << 10;

/// Message of a backend that its resource switches off.
const SWITCHED_OFF: &str = "switched off by `spec.enabled: false` of its resource";

/// Returns the backends whose JSON fits into [`MAX_LIST_BYTES`], sorted by name, and the number of the other
/// backends. The worst backends stay.
pub(super) fn within_budget(mut backends: Vec<DiscoveredBackend>) -> (Vec<DiscoveredBackend>, usize) {
    // A backend always serializes.
    let size = |backend: &DiscoveredBackend| serde_json::to_vec(backend).map_or(0, |json| json.len() + 1);
    if backends.iter().map(size).sum::<usize>() <= MAX_LIST_BYTES {
        return (backends, 0);
    }
    let all = backends.len();
    // Stable: equally bad ones stay in the order of their names, so that the status comes to rest.
    backends.sort_by_key(|backend| std::cmp::Reverse(rank(backend.status)));
    let mut used = 0;
    let fits = |backend: &DiscoveredBackend| -> bool {
        used += size(backend);
        used <= MAX_LIST_BYTES
    };
    let mut kept: Vec<_> = backends.into_iter().take_while(fits).collect();
    kept.sort_by(|one, other| one.name.cmp(&other.name));
    let omitted = all - kept.len();
    (kept, omitted)
}

/// Ranks states by the need of a person: an unknown state needs none.
fn rank(state: BackendState) -> u8 {
    match state {
        BackendState::Ready => 0,
        BackendState::Unknown => 1,
        BackendState::Degraded => 2,
        BackendState::Unavailable | BackendState::Unauthenticated => 3,
    }
}

/// Returns every member, sorted by name.
pub(super) fn discovered(observed: &ObservedVirtualMCPServer<'_>) -> Vec<DiscoveredBackend> {
    let before = observed.before().discovered_backends;
    let Ok(configuration) = &observed.plan.configuration else {
        // The mounted configuration is an older one: only the pods know its backends.
        return reported_only(observed, &before);
    };
    let mut discovered: Vec<_> = configuration
        .backends
        .iter()
        .map(|backend| {
            let before = before.iter().find(|known| known.name == backend.name);
            let unusable = observed.plan.unusable.get(&backend.name);
            if unusable.is_none() && !backend.enabled {
                return switched_off(&backend.name, &backend.url);
            }
            merged(observed, &backend.name, Some(backend.url.clone()), unusable, before)
        })
        .collect();
    for (name, reason) in &observed.plan.unusable {
        if discovered.iter().all(|known| known.name != *name) {
            discovered.push(merged(observed, name, None, Some(reason), None));
        }
    }
    discovered.sort_by(|a, b| a.name.cmp(&b.name));
    discovered
}

/// Returns true if the backends are those of the status so far: the configuration is refused, and no pod
/// reports a backend.
pub(super) fn are_kept(observed: &ObservedVirtualMCPServer<'_>) -> bool {
    observed.plan.configuration.is_err() && observed.reports().all(|report| report.backends.is_empty())
}

/// Returns the backends that pods report, or those of the status so far while no pod reports.
fn reported_only(
    observed: &ObservedVirtualMCPServer<'_>,
    before: &[DiscoveredBackend],
) -> Vec<DiscoveredBackend> {
    let mut names: Vec<_> = observed
        .reports()
        .flat_map(|report| report.backends.iter().map(|backend| backend.name.clone()))
        .collect();
    names.sort();
    names.dedup();
    if names.is_empty() {
        return before.to_vec();
    }
    let of = |name: &String| {
        let before = before.iter().find(|known| known.name == *name);
        merged(observed, name, before.and_then(|before| before.url.clone()), None, before)
    };
    names.iter().map(of).collect()
}

/// Returns true if a report about the backend is to come.
pub(super) fn is_awaited(backend: &DiscoveredBackend) -> bool {
    backend.status == BackendState::Unknown && backend.message.as_deref() != Some(SWITCHED_OFF)
}

/// Returns a backend that its resource switches off. Pods report none of these.
fn switched_off(name: &str, url: &str) -> DiscoveredBackend {
    DiscoveredBackend {
        name: name.to_owned(),
        url: Some(url.to_owned()),
        status: BackendState::Unknown,
        mcp_revision: None,
        tool_count: None,
        circuit_breaker_state: None,
        message: Some(SWITCHED_OFF.to_owned()),
    }
}

/// Merges the reports of all pods about one backend.
fn merged(
    observed: &ObservedVirtualMCPServer<'_>,
    name: &str,
    url: Option<String>,
    unusable: Option<&String>,
    before: Option<&DiscoveredBackend>,
) -> DiscoveredBackend {
    let statuses: Vec<&BackendStatus> = observed
        .reports()
        .filter_map(|report| report.backends.iter().find(|backend| backend.name == name))
        .collect();
    let mut discovered = DiscoveredBackend {
        name: name.to_owned(),
        url,
        status: BackendState::Unknown,
        mcp_revision: statuses.iter().find_map(|status| status.revision.clone()),
        tool_count: statuses
            .iter()
            .filter_map(|status| Some(i32::try_from(status.tools?).unwrap_or(i32::MAX)))
            .max(),
        circuit_breaker_state: statuses
            .iter()
            .map(|status| status.breaker)
            .max_by_key(|breaker| severity(*breaker))
            .map(breaker),
        message: None,
    };
    if let Some(reason) = unusable {
        discovered.status = BackendState::Unavailable;
        discovered.message = Some(shorten(reason));
        (discovered.mcp_revision, discovered.tool_count, discovered.circuit_breaker_state) =
            (None, None, None);
        return discovered;
    }
    let server = observed.references.servers.iter().find(|server| server.name_any() == name);
    let trouble = server.and_then(|server| trouble(server));
    let states: Vec<_> = statuses.iter().map(|status| state(status)).collect();
    let Some(worst) = states.iter().max() else {
        discovered.message = trouble;
        return discovered;
    };
    // Ready in one pod and not in another: some calls go through.
    let callable = states.iter().any(|state| *state <= BackendState::Degraded);
    let lost = *worst > BackendState::Degraded && *worst != BackendState::Unknown;
    discovered.status = if callable && lost { BackendState::Degraded } else { *worst };
    if discovered.status != BackendState::Ready {
        let symptom =
            || statuses.iter().max_by_key(|status| state(status)).and_then(|status| message(status));
        discovered.message = trouble.or_else(symptom).map(|message| without_flapping(message, before));
    }
    discovered
}

/// Returns why an MCPServer does not run. That is the cause; the pods of `vmcp` see only the refused
/// connection that follows from it.
fn trouble(server: &MCPServer) -> Option<String> {
    let status = server.status.as_ref()?;
    let is_up = |phase| matches!(phase, MCPServerPhase::Ready | MCPServerPhase::Degraded);
    let phase = status.phase.filter(|phase| !is_up(*phase))?;
    let why = status.message.as_deref().map(|why| format!(": {}", shorten(why))).unwrap_or_default();
    let (name, namespace) = (server.name_any(), server.namespace().unwrap_or_default());
    Some(format!(
        "MCPServer {name} is {phase:?}{why}; see `kubectl describe mcpserver {name} -n {namespace}`"
    ))
}

/// Maps a pod's report to a state. A refused credential is recognized by words of the error.
fn state(status: &BackendStatus) -> BackendState {
    let failed = || {
        let error = status.last_error.as_deref().unwrap_or_default().to_ascii_lowercase();
        let mut words = error.split(|character: char| !character.is_ascii_alphanumeric());
        if words.any(|word| matches!(word, "401" | "403" | "unauthorized" | "forbidden")) {
            BackendState::Unauthenticated
        } else {
            BackendState::Unavailable
        }
    };
    match status.state {
        report::BackendState::Connected if status.breaker == BreakerPosition::Open => {
            BackendState::Unavailable
        }
        report::BackendState::Connected if status.rejected > 0 => BackendState::Degraded,
        report::BackendState::Connected => BackendState::Ready,
        report::BackendState::Failed => failed(),
        // Between two attempts the backend is as it was after the last one.
        report::BackendState::Connecting | report::BackendState::Configured
            if status.last_error.is_some() =>
        {
            failed()
        }
        report::BackendState::Connecting | report::BackendState::Configured => BackendState::Unknown,
    }
}

/// Returns the fault of a backend in one pod.
fn message(status: &BackendStatus) -> Option<String> {
    if let Some(error) = &status.last_error {
        return Some(shorten(error));
    }
    match status.state {
        report::BackendState::Connected if status.breaker != BreakerPosition::Closed => {
            Some("calls failed repeatedly, so that the circuit breaker holds them back; see the log of the MCP server".to_owned())
        }
        report::BackendState::Connected if status.rejected > 0 => {
            Some("some of its definitions cannot be used; see the log of the pods".to_owned())
        }
        report::BackendState::Connected => None,
        _ => Some("connecting".to_owned()),
    }
}

/// Keeps the message so far if the new one differs in numbers only (ports, seconds, attempts): the status
/// must come to rest.
fn without_flapping(message: String, before: Option<&DiscoveredBackend>) -> String {
    let words = |text: &str| text.chars().filter(|character| !character.is_ascii_digit()).collect::<String>();
    match before.and_then(|before| before.message.as_ref()) {
        Some(before) if words(before) == words(&message) => before.clone(),
        _ => message,
    }
}

fn shorten(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_MESSAGE_BYTES);
    text.get(..end).unwrap_or_default().to_owned()
}

/// Ranks breaker positions: the worst pod counts.
fn severity(breaker: BreakerPosition) -> u8 {
    match breaker {
        BreakerPosition::Closed => 0,
        BreakerPosition::HalfOpen => 1,
        BreakerPosition::Open => 2,
    }
}

fn breaker(position: BreakerPosition) -> CircuitBreakerState {
    match position {
        BreakerPosition::Closed => CircuitBreakerState::Closed,
        BreakerPosition::Open => CircuitBreakerState::Open,
        BreakerPosition::HalfOpen => CircuitBreakerState::HalfOpen,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backend(name: String, status: BackendState) -> DiscoveredBackend {
        DiscoveredBackend {
            name,
            url: None,
            status,
            mcp_revision: None,
            tool_count: None,
            circuit_breaker_state: None,
            message: Some("x".repeat(MAX_MESSAGE_BYTES)),
        }
    }

    #[test]
    fn a_list_of_thousands_is_cut_and_the_worst_stay() {
        let mut backends: Vec<_> =
            (0..3000).map(|number| backend(format!("b{number:04}"), BackendState::Ready)).collect();
        backends.push(backend("z".to_owned(), BackendState::Unavailable));
        let (kept, omitted) = within_budget(backends.clone());
        assert_eq!(kept.len() + omitted, 3001);
        assert!(kept.len() > 300 && omitted > 2000, "{} kept, {omitted} left out", kept.len());
        assert!(serde_json::to_vec(&kept).unwrap().len() <= MAX_LIST_BYTES + 2);
        assert_eq!(kept.last().map(|backend| backend.name.as_str()), Some("z"));
        assert_eq!(kept.first().map(|backend| backend.name.as_str()), Some("b0000"));
        assert_eq!(within_budget(backends.clone()).0, kept, "the status comes to rest");
        let few = backends.split_off(2990);
        assert_eq!(within_budget(few.clone()), (few, 0));
    }
}
