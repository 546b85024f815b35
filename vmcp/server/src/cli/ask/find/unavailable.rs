//! Servers that do not answer, as find_tool names them: a tool that is not found may be one of theirs.

use serde::Deserialize;

use crate::cli::connection::Connection;
use crate::cli::console::notes::counted;
use crate::cli::operate::doctor::remedies;

/// Most servers that are named; the others are counted.
const MAX_NAMED: usize = 5;
/// Most characters of a cause; the rest is cut.
const MAX_CAUSE_CHARACTERS: usize = 200;

/// A server that does not answer.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct UnavailableServer {
    server: String,
    /// Cause, if the server that was asked tells it to its clients.
    reason: Option<String>,
}

/// Adds the causes that the answer keeps to itself, where the admin port tells them.
pub(super) async fn with_reasons(
    servers: &[UnavailableServer],
    connection: &Connection,
) -> Vec<UnavailableServer> {
    let mut servers = servers.to_vec();
    if servers.iter().all(|server| server.reason.is_some()) {
        return servers;
    }
    let Ok(status) = connection.status().await else { return servers };
    for server in servers.iter_mut().filter(|server| server.reason.is_none()) {
        let backend = status.backends.iter().find(|backend| backend.name == server.server);
        server.reason = backend.and_then(|backend| backend.last_error.clone());
    }
    servers
}

/// Returns a line for each server, with its remedy; at most [`MAX_NAMED`], and one for the others.
pub(super) fn lines(servers: &[UnavailableServer]) -> Vec<String> {
    let mut lines: Vec<_> = servers.iter().take(MAX_NAMED).map(UnavailableServer::line).collect();
    let more = servers.len().saturating_sub(MAX_NAMED);
    if more > 0 {
        lines.push(format!(
            "not available either: {}; `vmcp backends` lists them",
            counted(more, "more server")
        ));
    }
    lines
}

impl UnavailableServer {
    fn line(&self) -> String {
        let UnavailableServer { server, reason } = self;
        let doctor = || format!("`vmcp doctor {server}` says what to do");
        let Some(reason) = reason else {
            return format!("the server {server} is not available; {}", doctor());
        };
        let remedy = remedies::for_error(server, reason).unwrap_or_else(doctor);
        let words: Vec<_> = reason.split_whitespace().collect();
        let cause: String = words.join(" ").chars().take(MAX_CAUSE_CHARACTERS).collect();
        format!("the server {server} is not available: {cause}; {remedy}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn down(server: &str, reason: Option<&str>) -> UnavailableServer {
        UnavailableServer { server: server.to_owned(), reason: reason.map(str::to_owned) }
    }

    #[test]
    fn each_server_has_one_line_with_its_cause_and_what_to_do() {
        let lines = lines(&[
            down("files", Some("cannot start `no-such`: No such file or directory\n(os error 2)")),
            down("far", None),
            down("odd", Some("it burns")),
        ]);
        let [files, far, odd] = lines.as_slice() else { panic!("{lines:?}") };
        assert!(files.contains("files is not available: cannot start `no-such`"), "{files}");
        assert!(files.contains("is the program installed") && !files.contains('\n'), "{files}");
        assert_eq!(far, "the server far is not available; `vmcp doctor far` says what to do");
        assert_eq!(odd, "the server odd is not available: it burns; `vmcp doctor odd` says what to do");
    }

    #[test]
    fn many_servers_and_long_causes_are_cut() {
        let servers: Vec<_> = (0..8).map(|at| down(&format!("s{at}"), Some(&"é".repeat(1000)))).collect();
        let lines = lines(&servers);
        assert_eq!(lines.len(), MAX_NAMED + 1);
        assert_eq!(lines.last().unwrap(), "not available either: 3 more servers; `vmcp backends` lists them");
        assert!(lines.iter().all(|line| line.chars().count() < 350), "{lines:?}");
    }
}
