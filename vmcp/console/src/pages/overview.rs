//! The first page: the state in one sentence, figures, and a table of servers.

mod sentence;

use std::collections::BTreeMap;

use maud::{Markup, html};
use vmcp_config::status::{BackendState, BackendStatus, BreakerPosition, StatusReport};

pub use sentence::sentence;

use super::clients::{Replicas, asked_replicas};
use crate::chart::sparkline;
use crate::frame::{Frame, table};
use crate::links::{self, link};
use crate::text;

/// The data of the page.
#[derive(Debug, Clone, Default)]
pub struct Overview {
    /// The report of `/admin/status`.
    pub status: StatusReport,
    /// Remedy for the last error of a server, by its name, as `vmcp doctor` gives it.
    pub remedies: BTreeMap<String, String>,
    /// Calls among the latest 1000.
    pub activity: Activity,
    /// Tokens of the optimizer's own definitions; `None` if it is off.
    pub optimizer_tokens: Option<u64>,
    /// Replicas whose figures are in the sums; `None` if `server.peers` names none.
    pub replicas: Option<Replicas>,
    /// Sessions at servers that other replicas hold.
    pub other_sessions: usize,
    /// Other replicas at which a server fails, by its name: the address of each, and the last error.
    pub failing_elsewhere: BTreeMap<String, Vec<(String, String)>>,
}

/// Figures about the latest calls.
#[derive(Debug, Clone, Default)]
pub struct Activity {
    /// Calls that ended within the last minute.
    pub last_minute: usize,
    /// True if that minute had more calls than a process keeps.
    pub has_more: bool,
    /// Median of the time that the kept calls took, in milliseconds; `None` without a call.
    pub median_ms: Option<f64>,
    /// 99th percentile of it.
    pub p99_ms: Option<f64>,
    /// Kept calls that did not end in `ok`.
    pub failed: usize,
    /// Kept calls.
    pub kept: usize,
    /// Median of the time that a server took, in milliseconds, by its name.
    pub by_server: BTreeMap<String, f64>,
    /// These times of the latest calls, the oldest first; at most [`MAX_SPARKS`].
    pub latest_by_server: BTreeMap<String, Vec<f64>>,
}

/// Returns the page.
pub fn overview(frame: &Frame, data: &Overview) -> String {
    let Overview { status, activity, .. } = data;
    let content = html! {
        p.lead { (sentence(status)) }
        @if let Some(refused) = &status.configuration.refused {
            div.notice.problem {
                p { strong { "The last edit of the configuration is refused" } "; the one before stays in force:" }
                (text::prose(&refused.message))
            }
        }
        @if !status.configuration.needs_restart.is_empty() {
            p.notice { "These settings take effect after a restart: " (status.configuration.needs_restart.join(", ")) "." }
        }
        (asked_replicas(data.replicas.as_ref()))
        (figures(data))
        h2 { "Servers" }
        @if status.backends.is_empty() {
            p { "There are no servers yet. " code { "vmcp add" } " adds one, " code { "vmcp init --from claude" } " imports yours." }
        } @else {
            (table("Servers", &["Server", "State", "Era", "Transport", "Latency", "Tools", "Sessions", "Last error, and the remedy"], &html! {
                @for backend in &status.backends { (row(backend, data)) }
            }))
        }
        (slowest(activity))
        @if activity.kept > 0 {
            p.quiet-text { "Times are of the latest " (activity.kept) " calls" @if data.replicas.is_none() { " of this process" } ", of which " (activity.failed) " failed." }
        }
        (search_state(status))
        @if !status.issues.is_empty() {
            h2 { "Definitions that need attention" }
            ul { @for issue in status.issues.iter().take(MAX_ISSUES) { li { (text::line(issue)) } } }
            @if status.issues.len() > MAX_ISSUES { p { (status.issues.len() - MAX_ISSUES) " more are in " code { "/admin/status" } "." } }
        }
    };
    frame.page("", "Overview", &content)
}

/// Most calls in the sparkline of a server.
pub const MAX_SPARKS: usize = 40;
/// Most replicas at which a server fails that the page names.
const MAX_ELSEWHERE: usize = 3;
/// Most issues that the page lists.
const MAX_ISSUES: usize = 50;

fn figures(data: &Overview) -> Markup {
    let Overview { status, activity, optimizer_tokens, .. } = data;
    let sessions =
        status.backends.iter().map(|backend| backend.sessions).sum::<usize>() + data.other_sessions;
    let saved = optimizer_tokens.map(|own| status.baseline_tokens.saturating_sub(own));
    html! {
        ul.figures {
            li { strong { (status.tools) } "tools" }
            @if let Some(saved) = saved { li { strong { (saved) } "tokens saved in each list" } }
            li { strong { (activity.last_minute) @if activity.has_more { "+" } } "calls in the last minute" }
            @for (value, name) in [(activity.median_ms, "p50 of calls"), (activity.p99_ms, "p99 of calls")] {
                @if let Some(value) = value { li { strong { (text::milliseconds(value)) } (name) } }
            }
            li { strong { (status.connections) } "connections of clients" }
            li { strong { (sessions) } "sessions at servers" }
        }
    }
}

/// Names the server whose median is the highest, if there are several.
fn slowest(activity: &Activity) -> Markup {
    let slowest = activity.by_server.iter().max_by(|one, other| one.1.total_cmp(other.1));
    html! {
        @if let Some((server, median)) = slowest.filter(|_| activity.by_server.len() > 1) {
            p { "Slowest: " a href=(link("calls", &[("server", server)])) { (text::line(server)) }
                ", whose calls take " (text::milliseconds(*median)) " in the median." }
        }
    }
}

fn row(backend: &BackendStatus, data: &Overview) -> Markup {
    html! {
        tr {
            th scope="row" { a href=(links::server(&backend.name)) { (text::line(&backend.name)) } }
            td { (state(backend)) }
            td { (backend.era.as_deref().unwrap_or("–")) }
            td { (backend.transport) }
            td.number { (latency(&data.activity, &backend.name)) }
            td.number { @if let Some(tools) = backend.tools { (tools) } @else { "–" } }
            td.number { (backend.sessions) }
            td.wide {
                (trouble(backend, data.remedies.get(&backend.name).map(String::as_str)))
                (elsewhere(data.failing_elsewhere.get(&backend.name)))
            }
        }
    }
}

/// Names other replicas at which a server fails.
fn elsewhere(failing: Option<&Vec<(String, String)>>) -> Markup {
    html! {
        @for (replica, error) in failing.into_iter().flatten().take(MAX_ELSEWHERE) {
            div { span.bad { "failed" } " at the replica " (text::line(replica)) ": " (text::line(error)) }
        }
    }
}

/// Shows the median of a server's calls, and the latest of them as a sparkline.
fn latency(activity: &Activity, server: &str) -> Markup {
    html! {
        @if let Some(median) = activity.by_server.get(server) { (text::milliseconds(*median)) } @else { "–" }
        @if let Some(latest) = activity.latest_by_server.get(server) { (sparkline(latest)) }
    }
}

/// Shows the last error of a server and its remedy, tools that wait for approval, and advice.
pub(crate) fn trouble(backend: &BackendStatus, remedy: Option<&str>) -> Markup {
    html! {
        @if let Some(error) = &backend.last_error {
            div { (text::line(error)) }
            @if let Some(remedy) = remedy { div { strong { "What to do: " } (text::line(remedy)) } }
        }
        @if !backend.quarantined.is_empty() {
            div { a href=(links::server(&backend.name)) { (backend.quarantined.len()) @if backend.quarantined.len() == 1 { " changed tool waits for approval" } @else { " changed tools wait for approval" } } }
        }
        @for advice in &backend.advice { div { (text::line(advice)) } }
    }
}

/// Shows the state of a server in words; color is never the only sign.
pub(crate) fn state(backend: &BackendStatus) -> Markup {
    let (class, word) = match (backend.state, backend.breaker) {
        (BackendState::Connected, BreakerPosition::Open) => ("bad", "circuit open"),
        (BackendState::Connected, BreakerPosition::HalfOpen) => ("warn", "circuit half open"),
        (BackendState::Connected, BreakerPosition::Closed) => ("good", "connected"),
        (BackendState::Connecting, _) => ("warn", "connecting"),
        (BackendState::Failed, _) => ("bad", "failed"),
        (BackendState::Configured, _) => ("quiet-text", "idle"),
    };
    html! { span class=(class) { (word) } }
}

fn search_state(status: &StatusReport) -> Markup {
    let embeddings = &status.embeddings;
    html! {
        h2 { "Search" }
        p {
            @if embeddings.wanted == 0 { "Searches use keywords (" (embeddings.state.as_str()) ")." }
            @else { (embeddings.embedded) " of " (embeddings.wanted) " tools have a vector (" (embeddings.state.as_str()) ")." }
            @if let Some(model) = &embeddings.model { " Model: " code { (text::line(model)) } "." }
        }
        @if let Some(reason) = &embeddings.reason { p.notice.problem { (text::line(reason)) } }
        @if let Some(hint) = &embeddings.hint { p { strong { "What to do: " } (text::line(hint)) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_states_in_words_and_an_error_with_its_remedy() {
        let backend = BackendStatus {
            name: "github".to_owned(),
            state: BackendState::Failed,
            last_error: Some("<script>alert(1)</script>\u{202e}".to_owned()),
            ..BackendStatus::default()
        };
        let status = StatusReport { backends: vec![backend], ..StatusReport::default() };
        let remedies = BTreeMap::from([("github".to_owned(), "`vmcp login github`".to_owned())]);
        let by_server = BTreeMap::from([("github".to_owned(), 7.0), ("slow&".to_owned(), 820.0)]);
        let latest_by_server = BTreeMap::from([("github".to_owned(), vec![3.0, 7.0])]);
        let activity = Activity { by_server, latest_by_server, ..Activity::default() };
        let failing_elsewhere = BTreeMap::from([(
            "github".to_owned(),
            vec![("10.0.0.2:9090".to_owned(), "<b>refused".to_owned())],
        )]);
        let replicas = Some(Replicas { answering: 2, unreachable: vec!["10.0.0.3:9090".to_owned()] });
        let data =
            Overview { status, remedies, activity, replicas, failing_elsewhere, ..Overview::default() };
        let page = overview(&Frame::default(), &data);
        assert!(page.contains("at the replica <bdi>10.0.0.2:9090</bdi>: <bdi>&lt;b&gt;refused"), "{page}");
        assert!(page.contains("Of 2 replicas") && page.contains("10.0.0.3:9090"), "{page}");
        assert!(page.contains("Slowest: <a href=\"/console/calls?server=slow%26\">"), "{page}");
        assert!(page.contains("<span class=\"bad\">failed</span>"), "{page}");
        assert!(page.contains("7.0 ms<svg class=\"spark\""), "{page}");
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;⟨U+202E⟩"), "{page}");
        assert!(page.contains("What to do: </strong><bdi>`vmcp login github`"), "{page}");
    }
}
