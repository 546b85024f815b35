//! The state of all servers in one sentence.

use vmcp_config::status::{BackendState, BackendStatus, BreakerPosition, StatusReport};

/// Signs in an error that a person has to sign in.
const LOGIN_SIGNS: [&str; 2] = ["a person to sign in", "invalid_grant"];
/// Most servers that the sentence names.
const MAX_NAMED: usize = 3;

/// Returns such a sentence as "22 of 23 servers answer; `github` needs a login."
pub fn sentence(status: &StatusReport) -> String {
    let all = &status.backends;
    if all.is_empty() {
        return "No server is configured.".to_owned();
    }
    let is_up = |backend: &&BackendStatus| {
        backend.state == BackendState::Connected && backend.breaker != BreakerPosition::Open
    };
    let up = all.iter().filter(is_up).count();
    let mut parts = vec![match (all.len(), up) {
        (1, 1) => "The server answers".to_owned(),
        (1, _) => "The server does not answer".to_owned(),
        (count, up) if count == up => format!("All {count} servers answer"),
        (count, up) => format!("{up} of {count} servers answer"),
    }];
    let (mut login, mut failed, mut connecting, mut idle) = (vec![], vec![], vec![], vec![]);
    for backend in all.iter().filter(|backend| !is_up(backend)) {
        let needs_login = LOGIN_SIGNS
            .iter()
            .any(|sign| backend.last_error.as_ref().is_some_and(|error| error.contains(sign)));
        let group = match backend.state {
            _ if needs_login => &mut login,
            BackendState::Connecting => &mut connecting,
            BackendState::Configured => &mut idle,
            BackendState::Failed | BackendState::Connected => &mut failed,
        };
        group.push(backend.name.as_str());
    }
    let groups = [
        (login, "needs a login", "need a login"),
        (failed, "fails", "fail"),
        (connecting, "is connecting", "are connecting"),
        (idle, "is idle until it is needed", "are idle until they are needed"),
    ];
    let named = groups.iter().filter(|(names, ..)| !names.is_empty());
    parts.extend(
        named.map(|(names, one, many)| {
            format!("{} {}", list(names), if names.len() == 1 { one } else { many })
        }),
    );
    let waiting: usize = all.iter().map(|backend| backend.quarantined.len()).sum();
    match waiting {
        0 => {}
        1 => parts.push("a changed tool waits for approval".to_owned()),
        _ => parts.push(format!("{waiting} changed tools wait for approval")),
    }
    parts.join("; ") + "."
}

/// Joins names; those beyond [`MAX_NAMED`] are counted.
fn list(names: &[&str]) -> String {
    let shown: Vec<_> = names.iter().take(MAX_NAMED).map(|name| format!("`{name}`")).collect();
    match names.len().saturating_sub(MAX_NAMED) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backend(name: &str, state: BackendState, error: Option<&str>) -> BackendStatus {
        BackendStatus {
            name: name.to_owned(),
            state,
            last_error: error.map(str::to_owned),
            ..BackendStatus::default()
        }
    }

    fn said(backends: Vec<BackendStatus>) -> String {
        sentence(&StatusReport { backends, ..StatusReport::default() })
    }

    #[test]
    fn the_sentence_counts_the_servers_and_names_those_that_need_something() {
        assert_eq!(said(vec![]), "No server is configured.");
        assert_eq!(said(vec![backend("a", BackendState::Connected, None)]), "The server answers.");
        let mut all = vec![
            backend("a", BackendState::Connected, Some("a call failed")),
            backend("b", BackendState::Connected, None),
        ];
        assert_eq!(said(all.clone()), "All 2 servers answer.");
        all.push(backend("github", BackendState::Failed, Some("401: wants a person to sign in")));
        assert_eq!(said(all.clone()), "2 of 3 servers answer; `github` needs a login.");
        all.extend(["c", "d", "e", "f"].map(|name| backend(name, BackendState::Failed, None)));
        let expected = "2 of 7 servers answer; `github` needs a login; `c`, `d`, `e` and 1 more fail.";
        assert_eq!(said(all), expected);
    }

    #[test]
    fn an_open_circuit_is_no_answer_and_quarantine_is_told() {
        let mut open = backend("a", BackendState::Connected, None);
        open.breaker = BreakerPosition::Open;
        open.quarantined = vec!["x".to_owned()];
        assert_eq!(
            said(vec![open]),
            "The server does not answer; `a` fails; a changed tool waits for approval."
        );
    }
}
