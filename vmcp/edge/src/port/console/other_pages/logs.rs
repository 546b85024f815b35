//! The data of the page with log lines, of all replicas.

use axum::Extension;
use axum::extract::State;
use axum::response::{Html, Json};
use vmcp_console::pages::logs::{LogLine, logs as logs_page};
use vmcp_engine::engine::replicas::{OfReplica, OtherReplicas, Waiting};
use vmcp_engine::telemetry::recent::{self, RecentLine};

use crate::port::admin::Admin;
use crate::port::console::access::{ConsoleDoor, Visitor};
use crate::port::console::answer::replicas;

/// Path at which other replicas answer.
const PATH: &str = "/admin/replica/logs";
/// Most lines of a page.
const MAX_LINES: usize = 1_000;
/// Most bytes of the texts that a replica sends another one: 1 MiB; older lines are left out.
const MAX_BYTES: usize = 1 << 20;

/// Answers `GET /console/logs`.
pub(in crate::port::console) async fn show(
    State(door): State<ConsoleDoor>,
    Extension(visitor): Extension<Visitor>,
) -> Html<String> {
    let others: OtherReplicas<Vec<LogLine>> = door.engine().ask_other_replicas(PATH, Waiting::Page).await;
    let mut lines = own_lines();
    for other in others.answers {
        let replica = other.address.to_string();
        lines.extend(other.answer.into_iter().map(|line| LogLine { replica: replica.clone(), ..line }));
    }
    // Stable: lines of one replica keep their order within a millisecond.
    lines.sort_by(|one, other| other.at.cmp(&one.at));
    lines.truncate(MAX_LINES);
    Html(logs_page(&door.frame(&visitor), &lines, replicas(others.census).as_ref()))
}

/// Answers `GET /admin/replica/logs`.
pub(in crate::port::console) async fn serve(State(admin): State<Admin>) -> Json<OfReplica<Vec<LogLine>>> {
    let replica = admin.0.engine.replica_id().to_owned();
    Json(OfReplica { replica, answer: within(own_lines(), MAX_BYTES) })
}

/// Returns the lines of this process, the newest first.
fn own_lines() -> Vec<LogLine> {
    let shown = |RecentLine { at, level, backend, text }: RecentLine| LogLine {
        at,
        level,
        server: backend,
        text,
        replica: String::new(),
    };
    recent::lines().since(0, |_| true).entries.into_iter().rev().map(shown).collect()
}

/// Returns the first lines whose texts have at most `limit` bytes.
fn within(mut lines: Vec<LogLine>, limit: usize) -> Vec<LogLine> {
    let mut bytes = 0;
    let fits = lines.iter().take_while(|line| {
        bytes += line.text.len();
        bytes <= limit
    });
    let fits = fits.count();
    lines.truncate(fits);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_tells_its_newest_lines_within_a_bound() {
        let line = |length: usize| LogLine { text: "x".repeat(length), ..LogLine::default() };
        let lengths = |lines: Vec<LogLine>| lines.iter().map(|line| line.text.len()).collect::<Vec<_>>();
        assert_eq!(lengths(within(vec![line(3), line(4), line(5)], 7)), [3, 4]);
        assert_eq!(lengths(within(vec![line(8), line(1)], 7)), [0; 0]);
        assert_eq!(lengths(within(vec![line(3)], 7)), [3]);
    }
}
