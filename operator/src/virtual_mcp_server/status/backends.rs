//! `discoveredBackends`: every member, as the worst of the pods sees it.

use kube::ResourceExt as _;
use vmcp_config::status::{self as report, BackendStatus, BreakerPosition};
use vmcp_crds::MCPServer;
use vmcp_crds::mcp_server::MCPServerPhase;
use vmcp_crds::virtual_mcp_server::{BackendState, CircuitBreakerState, DiscoveredBackend};

use super::Seen;

/// The longest message that is shown; the pod's log has the rest.
const MESSAGE_LIMIT: usize = 512;

/// Every member by name.
pub(super) fn discovered(seen: &Seen<'_>) -> Vec<DiscoveredBackend> {
    let before = seen.before().discovered_backends;
    let Ok(configuration) = &seen.plan.configuration else {
        // What is mounted is not what is written; pods tell about what is mounted.
        return reported_only(seen, &before);
    };
    let mut discovered: Vec<_> = configuration
        .backends
        .iter()
        .map(|backend| {
            let before = before.iter().find(|known| known.name == backend.name);
            let unusable = seen.plan.unusable.get(&backend.name);
            one(seen, &backend.name, Some(backend.url.clone()), unusable, before)
        })
        .collect();
    for (name, reason) in &seen.plan.unusable {
        if discovered.iter().all(|known| known.name != *name) {
            discovered.push(one(seen, name, None, Some(reason), None));
        }
    }
    discovered.sort_by(|a, b| a.name.cmp(&b.name));
    discovered
}

fn reported_only(seen: &Seen<'_>, before: &[DiscoveredBackend]) -> Vec<DiscoveredBackend> {
    let mut names: Vec<_> = seen
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
        one(seen, name, before.and_then(|before| before.url.clone()), None, before)
    };
    names.iter().map(of).collect()
}

fn one(
    seen: &Seen<'_>,
    name: &str,
    url: Option<String>,
    unusable: Option<&String>,
    before: Option<&DiscoveredBackend>,
) -> DiscoveredBackend {
    let views: Vec<&BackendStatus> = seen
        .reports()
        .filter_map(|report| report.backends.iter().find(|backend| backend.name == name))
        .collect();
    let mut discovered = DiscoveredBackend {
        name: name.to_owned(),
        url,
        status: BackendState::Unknown,
        mcp_revision: views.iter().find_map(|view| view.revision.clone()),
        tool_count: views.iter().map(|view| i32::try_from(view.tools).unwrap_or(i32::MAX)).max(),
        circuit_breaker_state: views
            .iter()
            .map(|view| view.breaker)
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
    let server = seen.references.servers.iter().find(|server| server.name_any() == name);
    let trouble = server.and_then(|server| trouble(server));
    let states: Vec<_> = views.iter().map(|view| state(view)).collect();
    let Some(worst) = states.iter().max() else {
        discovered.message = trouble;
        return discovered;
    };
    // Ready in one pod and not in another: calls go through, sometimes.
    let callable = states.iter().any(|state| *state <= BackendState::Degraded);
    let lost = *worst > BackendState::Degraded && *worst != BackendState::Unknown;
    discovered.status = if callable && lost { BackendState::Degraded } else { *worst };
    if discovered.status != BackendState::Ready {
        let symptom = || views.iter().max_by_key(|view| state(view)).and_then(|view| message(view));
        discovered.message = trouble.or_else(symptom).map(|message| steady(message, before));
    }
    discovered
}

/// Why an MCPServer does not run. That nobody answers at its address, which is all that pods of ours see, follows from it.
fn trouble(server: &MCPServer) -> Option<String> {
    let status = server.status.as_ref()?;
    let phase = status.phase.filter(|phase| *phase != MCPServerPhase::Ready)?;
    let why = status.message.as_deref().map(|why| format!(": {}", shorten(why))).unwrap_or_default();
    let (name, namespace) = (server.name_any(), server.namespace().unwrap_or_default());
    Some(format!(
        "MCPServer {name} is {phase:?}{why}; see `kubectl describe mcpserver {name} -n {namespace}`"
    ))
}

fn state(view: &BackendStatus) -> BackendState {
    let failed = || {
        let error = view.last_error.as_deref().unwrap_or_default().to_ascii_lowercase();
        let mut words = error.split(|character: char| !character.is_ascii_alphanumeric());
        if words.any(|word| matches!(word, "401" | "403" | "unauthorized" | "forbidden")) {
            BackendState::Unauthenticated
        } else {
            BackendState::Unavailable
        }
    };
    match view.state {
        report::BackendState::Connected if view.breaker == BreakerPosition::Open => BackendState::Unavailable,
        report::BackendState::Connected if view.rejected > 0 => BackendState::Degraded,
        report::BackendState::Connected => BackendState::Ready,
        report::BackendState::Failed => failed(),
        // Between two attempts it is no better than after the last one.
        report::BackendState::Connecting | report::BackendState::Configured if view.last_error.is_some() => {
            failed()
        }
        report::BackendState::Connecting | report::BackendState::Configured => BackendState::Unknown,
    }
}

fn message(view: &BackendStatus) -> Option<String> {
    if let Some(error) = &view.last_error {
        return Some(shorten(error));
    }
    match view.state {
        report::BackendState::Connected if view.breaker != BreakerPosition::Closed => {
            Some("calls fail, so that they are not tried for a while; see the server's log".to_owned())
        }
        report::BackendState::Connected if view.rejected > 0 => {
            Some("some of its definitions cannot be used; see the log of the pods".to_owned())
        }
        report::BackendState::Connected => None,
        _ => Some("connecting".to_owned()),
    }
}

/// A message that differs in numbers only (ports, seconds, attempts) is the same message: the status must come to rest.
fn steady(message: String, before: Option<&DiscoveredBackend>) -> String {
    let words = |text: &str| text.chars().filter(|character| !character.is_ascii_digit()).collect::<String>();
    match before.and_then(|before| before.message.as_ref()) {
        Some(before) if words(before) == words(&message) => before.clone(),
        _ => message,
    }
}

fn shorten(text: &str) -> String {
    let end = text.floor_char_boundary(MESSAGE_LIMIT);
    text.get(..end).unwrap_or_default().to_owned()
}

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
