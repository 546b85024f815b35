//! Pages of the latest calls: their list, and one call in detail; [`usage`] has the sums of days. The data
//! lacks arguments and results.

mod outcome;
pub mod usage;

use maud::{Markup, html};
use serde::{Deserialize, Serialize};

use self::outcome::{meaning, outcome};
use super::clients::{Replicas, asked_replicas};
use crate::chart::span;
use crate::frame::{Frame, table};
use crate::links::{self, EXACT, link};
use crate::text;

/// A filter over calls, as its form holds it; an empty text admits every call.
#[derive(Debug, Clone, Default)]
pub struct CallFilter {
    /// Part of the tool's name, or all of it.
    pub tool: String,
    /// Part of the caller's name, or all of it.
    pub who: String,
    /// Name of the server.
    pub server: String,
    /// Outcome, or `failed` for all but `ok`.
    pub outcome: String,
    /// True if `tool` and `who` are whole names.
    pub exact: bool,
}

impl CallFilter {
    /// Returns true if the call is wanted.
    pub fn admits(&self, call: &Call) -> bool {
        let is_outcome = match self.outcome.as_str() {
            "" => true,
            "failed" => call.outcome != "ok",
            outcome => call.outcome == outcome,
        };
        let is_server = self.server.is_empty() || call.server == self.server;
        is_outcome && is_server && self.fits(&self.tool, &call.item) && self.fits(&self.who, &call.who)
    }

    fn fits(&self, wanted: &str, name: &str) -> bool {
        wanted.is_empty() || if self.exact { name == wanted } else { name.contains(wanted) }
    }
}

/// One call that has ended, also as a replica tells another one of it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Call {
    /// Its number in the process that made it.
    pub number: u64,
    /// Id of the replica that made it; empty: this process.
    pub replica: String,
    /// Address of that replica; empty: this process.
    pub replica_address: String,
    /// Time of its end.
    pub at: String,
    /// Caller: subject of its identity, or address.
    pub who: String,
    /// Issuer that vouches for the caller; empty for an address.
    pub issuer: String,
    /// Tool of vmcp through which it came; empty for a direct call.
    pub via: String,
    /// MCP method.
    pub method: String,
    /// Server; empty if it reached none.
    pub server: String,
    /// Tool, prompt, URI or task.
    pub item: String,
    /// `ok`, or the kind of the failure.
    pub outcome: String,
    /// Time from the request to the end of the answer, in milliseconds.
    pub took_ms: f64,
    /// Part of it during which the server had a request.
    pub server_ms: f64,
    /// Bytes of parameters.
    pub bytes_in: u64,
    /// Bytes of the answer.
    pub bytes_out: u64,
    /// Further facts, by name, for the page of one call.
    pub facts: Vec<(String, String)>,
    /// Its arguments, or their beginning, where audit events include them, for the page of one call.
    pub arguments: Option<String>,
    /// Address of its trace in the tracing system, for the page of one call; `http` or `https`.
    pub trace_address: Option<String>,
    /// The calls of its trace and the calls within them, the earliest first, for the page of one call; at
    /// most [`MAX_TIMELINE`].
    pub timeline: Vec<TimedCall>,
}

/// Name of the fact with the profile whose path the client used.
pub const PROFILE: &str = "Profile";

/// Most calls in a timeline.
pub const MAX_TIMELINE: usize = 100;

/// A call among those of one trace.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TimedCall {
    /// Its number in the process that made it.
    pub number: u64,
    /// Its tool, prompt, URI or task, or its method.
    pub item: String,
    /// Its server; empty if it reached none.
    pub server: String,
    /// True if vmcp made it within another call.
    pub is_within: bool,
    /// Time from the begin of the earliest one to its own begin, in milliseconds.
    pub begin_ms: f64,
    /// Time from its begin to its end.
    pub took_ms: f64,
    /// Part of it during which the server had a request.
    pub server_ms: f64,
}

/// The data of the page with the calls.
#[derive(Debug, Clone, Default)]
pub struct Calls {
    /// The filter.
    pub filter: CallFilter,
    /// Calls that fit, the newest first.
    pub calls: Vec<Call>,
    /// Place to go on behind, as the script sends it back.
    pub after: String,
    /// Outcomes to choose from.
    pub outcomes: Vec<String>,
    /// The replicas that were asked; `None` if `server.peers` names none.
    pub replicas: Option<Replicas>,
}

/// Returns the page with the calls.
pub fn calls(frame: &Frame, data: &Calls) -> String {
    let Calls { filter, calls, after, outcomes, replicas } = data;
    let columns: &[&str] = if replicas.is_some() { &OF_REPLICAS } else { &OF_ONE_PROCESS };
    let mut query: Vec<(&str, &str)> = vec![
        ("tool", &filter.tool),
        ("who", &filter.who),
        ("server", &filter.server),
        ("outcome", &filter.outcome),
    ];
    if filter.exact {
        query.push(EXACT);
    }
    let content = html! {
        p { "The latest 300 that fit, of 1000 kept by each process; filter for older ones. Arguments and results are not kept. "
            a href=(link("usage", &[])) { "Sums of each day" } " are kept." }
        (asked_replicas(replicas.as_ref()))
        form.filter method="get" {
            div.field { label for="tool" { "Tool" } input id="tool" name="tool" type="search" value=(filter.tool); }
            div.field { label for="who" { "Caller" } input id="who" name="who" type="search" value=(filter.who); }
            div.field { label for="server" { "Server" } input id="server" name="server" type="search" value=(filter.server); }
            div.field {
                label for="outcome" { "Outcome" }
                select id="outcome" name="outcome" {
                    option value="" { "any" }
                    option value="failed" selected[filter.outcome == "failed"] { "failed" }
                    @for outcome in outcomes { option value=(outcome) selected[*outcome == filter.outcome] { (text::inert(outcome, text::MAX_LINE)) } }
                }
            }
            @if filter.exact {
                div.field { label for="exact" { "Whole names" } input id="exact" name="exact" type="checkbox" value="1" checked; }
            }
            button { "Filter" }
        }
        div data-live=(link("calls/rows", &query)) data-after=(after) {
            p.hint role="status" data-live-state { "Load the page again for newer calls." }
            button.quiet type="button" data-live-toggle hidden { "Pause" }
        }
        (table("Calls", columns, &rows(calls, replicas.is_some())))
        @if calls.is_empty() { p { "No call fits." } }
    };
    frame.page("calls", "Calls", &content)
}

/// Columns of calls of one process.
const OF_ONE_PROCESS: [&str; 8] = ["Time", "Caller", "Tool", "Server", "Outcome", "Took", "In", "Out"];
/// Columns of calls of several replicas.
const OF_REPLICAS: [&str; 9] =
    ["Time", "Caller", "Tool", "Server", "Outcome", "Took", "In", "Out", "Replica"];

/// Returns the rows of calls, the newest first; with a column for the replica if there are several.
pub fn rows(calls: &[Call], has_replicas: bool) -> Markup {
    html! {
        @for call in calls {
            tr {
                td.time { a href=(address(call.number, &call.replica)) { (text::line(&call.at)) } }
                td { a href=(links::calls_of(&call.who)) { (text::line(&call.who)) } }
                td { @if call.is_of_tool() { a href=(links::listed_tool(&call.item)) { (text::line(&call.item)) } }
                    @else { (text::line(if call.item.is_empty() { &call.via } else { &call.item })) } }
                td { @if !call.server.is_empty() { (links::of_server(&call.server)) } }
                td { (outcome(&call.outcome)) }
                td.number { (text::milliseconds(call.took_ms)) }
                td.number { (text::bytes(call.bytes_in)) }
                td.number { (text::bytes(call.bytes_out)) }
                @if has_replicas { td { (replica(call)) } }
            }
        }
    }
}

/// Returns the address of the page of one call.
fn address(number: u64, replica: &str) -> String {
    let number = number.to_string();
    let mut query = vec![("number", number.as_str())];
    if !replica.is_empty() {
        query.push(("replica", replica));
    }
    link("call", &query)
}

/// Names the replica that made a call.
fn replica(call: &Call) -> Markup {
    html! { @if call.replica_address.is_empty() { "this one" } @else { (text::line(&call.replica_address)) } }
}

/// Returns the page of one call.
pub fn call(frame: &Frame, call: &Call) -> String {
    let facts = [
        ("Ended at", call.at.clone()),
        ("Caller", call.who.clone()),
        ("Method", call.method.clone()),
        ("Through", call.via.clone()),
        ("Server", call.server.clone()),
        ("Tool, prompt, URI or task", call.item.clone()),
        ("Took", text::milliseconds(call.took_ms)),
        ("Of which the server", text::milliseconds(call.server_ms)),
        ("Parameters", text::bytes(call.bytes_in)),
        ("Answer", text::bytes(call.bytes_out)),
        ("Made by the replica", call.replica_address.clone()),
    ];
    let facts = facts.iter().map(|(name, value)| (*name, value));
    let facts = facts.chain(call.facts.iter().map(|(name, value)| (name.as_str(), value)));
    let content = html! {
        p.lead { (outcome(&call.outcome)) }
        @let meaning = meaning(&call.outcome);
        @if !meaning.is_empty() { p { (meaning) } }
        dl.facts {
            @for (name, value) in facts.filter(|(_, value)| !value.is_empty()) {
                dt { (text::inert(name, text::MAX_LINE)) } dd { (text::line(value)) }
            }
        }
        @if let Some(arguments) = &call.arguments {
            h2 { "Arguments" }
            (text::document("Arguments", arguments))
            p.hint { "Kept because " code { "audit.includeRequestData" } " is on. Results are not kept." }
        } @else {
            p.hint { "Arguments and results are not kept here. Operators see arguments if " code { "audit.includeRequestData" } " is on." }
        }
        @if let Some(address) = &call.trace_address {
            p { a href=(address) rel="noreferrer" { "Its trace in the tracing system" } "." }
        }
        (timeline(call))
        (ways_on(call))
    };
    frame.page("calls", &format!("Call {}", call.number), &content)
}

/// Shows the calls of a trace in the order of time, as a waterfall.
fn timeline(call: &Call) -> Markup {
    let whole = call.timeline.iter().map(|it| it.begin_ms + it.took_ms).fold(0.0, f64::max);
    html! {
        @if call.timeline.len() > 1 {
            h2 { "Calls of this trace" }
            @if call.timeline.len() >= MAX_TIMELINE { p { "The first " (MAX_TIMELINE) "." } }
            (table("Calls of this trace", &["Call", "Server", "Time", "Begins after", "Took", "Of which the server"], &html! {
                @for it in call.timeline.iter().take(MAX_TIMELINE) {
                    tr {
                        th scope="row" {
                            @if it.is_within { "– " }
                            @if it.number == call.number { strong { (text::line(&it.item)) } }
                            @else { a href=(address(it.number, &call.replica)) { (text::line(&it.item)) } }
                        }
                        td { @if !it.server.is_empty() { (links::of_server(&it.server)) } }
                        td { (span(it.begin_ms, it.took_ms, whole)) }
                        td.number { (text::milliseconds(it.begin_ms)) }
                        td.number { (text::milliseconds(it.took_ms)) }
                        td.number { (text::milliseconds(it.server_ms)) }
                    }
                }
            }))
        }
    }
}

impl Call {
    /// Returns true if it called a tool of a server by its name.
    fn is_of_tool(&self) -> bool {
        self.method == "tools/call" && !self.item.is_empty()
    }
}

/// Links from a call to its tool, its server and calls like it.
fn ways_on(call: &Call) -> Markup {
    let profile = call.facts.iter().find(|(name, _)| name == PROFILE).map_or("", |(_, name)| name.as_str());
    let mut judged = vec![("name", call.item.as_str())];
    if !call.issuer.is_empty() {
        judged.extend([("who", call.who.as_str()), ("issuer", call.issuer.as_str())]);
    }
    if !profile.is_empty() {
        judged.push(("profile", profile));
    }
    html! {
        ul {
            @if call.is_of_tool() {
                li { a href=(links::listed_tool(&call.item)) { "The tool" } }
                @if !call.issuer.is_empty() { li { a href=(link("tool", &judged) + "#access") { "May this subject call it, and why?" } } }
                @else if call.outcome == "denied" {
                    li { a href=(link("tool", &judged) + "#access") { "Why may this client not call it?" } }
                }
                li { a href=(link("calls", &[("tool", &call.item), EXACT, ("outcome", "failed")])) { "Failures of the tool" } }
            }
            @if !call.server.is_empty() {
                @if call.server != links::COMPOSITE { li { a href=(links::server(&call.server)) { "The server" } } }
                li { a href=(link("calls", &[("server", &call.server)])) { "Calls of the server" } }
            }
            li { a href=(links::calls_of(&call.who)) { "Calls of this caller" } }
            li { a href=(link("calls", &[])) { "All calls" } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Call {
        Call {
            number: 7,
            who: "ann".to_owned(),
            issuer: "https://a".to_owned(),
            method: "tools/call".to_owned(),
            server: "jira".to_owned(),
            item: "jira_<b>search\u{202e}".to_owned(),
            outcome: "tool_error".to_owned(),
            ..Call::default()
        }
    }

    #[test]
    fn a_filter_reads_tool_caller_and_outcome() {
        let admits = |tool: &str, who: &str, outcome: &str| {
            let [tool, who, outcome] = [tool, who, outcome].map(str::to_owned);
            CallFilter { tool, who, outcome, ..CallFilter::default() }.admits(&sample())
        };
        let of_server = |server: &str| CallFilter { server: server.to_owned(), ..CallFilter::default() };
        assert!(of_server("jira").admits(&sample()) && !of_server("jir").admits(&sample()));
        assert!(admits("", "", "") && admits("search", "ann", "failed") && admits("", "", "tool_error"));
        assert!(!admits("note", "", "") && !admits("", "bob", "") && !admits("", "", "ok"));
    }

    #[test]
    fn an_exact_filter_takes_whole_names_alone_and_keeps_that() {
        let exact = |who: &str| CallFilter { who: who.to_owned(), exact: true, ..CallFilter::default() };
        let [bob, bobby] = ["bob", "bobby"].map(|who| Call { who: who.to_owned(), ..sample() });
        assert!(exact("bob").admits(&bob) && !exact("bob").admits(&bobby) && exact("").admits(&bobby));
        let part = CallFilter { exact: false, ..exact("bob") };
        assert!(part.admits(&bob) && part.admits(&bobby));
        let shown = |filter: &CallFilter| {
            calls(&Frame::default(), &Calls { filter: filter.clone(), ..Calls::default() })
        };
        let page = shown(&exact("bob"));
        assert!(page.contains("outcome=&amp;exact=1\"") && page.contains("name=\"exact\""), "{page}");
        assert!(!shown(&part).contains("exact"), "{page}");
    }

    #[test]
    fn names_are_inert_and_a_row_leads_to_its_call() {
        let data = Calls {
            calls: vec![sample()],
            after: "a.8".to_owned(),
            outcomes: vec!["ok".to_owned()],
            ..Calls::default()
        };
        let page = calls(&Frame::default(), &data);
        assert!(
            page.contains("href=\"/console/call?number=7\"") && page.contains("data-after=\"a.8\""),
            "{page}"
        );
        assert!(!page.contains("Replica"), "one process: {page}");
        assert!(page.contains("jira_&lt;b&gt;search⟨U+202E⟩"), "{page}");
    }

    #[test]
    fn calls_of_replicas_lead_to_the_replica_that_made_them_and_missing_ones_are_named() {
        let other = Call {
            replica: "0b".to_owned(),
            replica_address: "10.0.0.2:9090".to_owned(),
            timeline: vec![TimedCall::default(), TimedCall { number: 9, ..TimedCall::default() }],
            ..sample()
        };
        let replicas = Replicas { answering: 2, unreachable: vec!["gone<b>:9090".to_owned()] };
        let (replicas, list) = (Some(replicas), vec![other.clone(), sample()]);
        let page = calls(&Frame::default(), &Calls { calls: list, replicas, ..Calls::default() });
        assert!(page.contains("href=\"/console/call?number=7&amp;replica=0b\""), "{page}");
        assert!(page.contains("<td><bdi>10.0.0.2:9090</bdi></td>") && page.contains("<td>this one</td>"));
        assert!(page.contains("gone&lt;b&gt;:9090"), "{page}");
        let page = call(&Frame::default(), &other);
        assert!(page.contains("10.0.0.2:9090") && page.contains("number=9&amp;replica=0b"), "{page}");
        let odd = Call {
            outcome: "ok\u{202e}".to_owned(),
            facts: vec![("<b>\u{202e}".to_owned(), "x".to_owned())],
            timeline: vec![TimedCall::default(); MAX_TIMELINE + 1],
            ..other
        };
        let page = call(&Frame::default(), &odd);
        assert!(page.contains("<dt>&lt;b&gt;⟨U+202E⟩</dt>") && page.contains(">ok⟨U+202E⟩<"), "{page}");
        assert_eq!(page.matches("<th scope=\"row\">").count(), MAX_TIMELINE);
    }

    #[test]
    fn the_calls_of_a_trace_are_a_waterfall_with_a_link_to_the_tracing_system() {
        let timed = |number, begin_ms, item: &str| TimedCall {
            number,
            item: item.to_owned(),
            is_within: begin_ms > 0.0,
            begin_ms,
            took_ms: 10.0,
            ..TimedCall::default()
        };
        let timeline = vec![timed(7, 0.0, "outer"), timed(8, 10.0, "<b>step")];
        let trace_address = Some("https://jaeger.example/trace/4bf9?a&b".to_owned());
        let page = call(&Frame::default(), &Call { trace_address, timeline, ..sample() });
        assert!(page.contains("href=\"https://jaeger.example/trace/4bf9?a&amp;b\""), "{page}");
        assert!(page.contains("– <a href=\"/console/call?number=8\"><bdi>&lt;b&gt;step</bdi></a>"), "{page}");
        assert!(
            page.contains("<strong><bdi>outer</bdi></strong>") && page.contains("x=\"50.0\" width=\"50.0\"")
        );
        let alone = Call { timeline: vec![timed(7, 0.0, "outer")], ..sample() };
        assert!(!call(&Frame::default(), &alone).contains("Calls of this trace"));
    }

    #[test]
    fn arguments_are_shown_where_they_are_kept_and_inert() {
        let page = call(&Frame::default(), &sample());
        assert!(page.contains("are not kept here") && page.contains("an error of its own"), "{page}");
        let arguments = Some("{\"a\": \"<script>\u{202e}\"}".to_owned());
        let page = call(&Frame::default(), &Call { arguments, ..sample() });
        assert!(page.contains("&lt;script&gt;⟨U+202E⟩") && page.contains("Results are not kept"), "{page}");
    }

    #[test]
    fn one_call_shows_its_further_facts() {
        let page = call(
            &Frame::default(),
            &Call { facts: vec![("Trace".to_owned(), "4bf9".to_owned())], ..sample() },
        );
        assert!(page.contains("<dt>Trace</dt><dd><bdi>4bf9</bdi></dd>"), "{page}");
        let of_profile = Call { facts: vec![(PROFILE.to_owned(), "p&q".to_owned())], ..sample() };
        let shown = call(&Frame::default(), &of_profile);
        assert!(shown.contains("issuer=https%3A%2F%2Fa&amp;profile=p%26q#access"), "{shown}");
        let composite = Call { server: links::COMPOSITE.to_owned(), ..sample() };
        assert!(!call(&Frame::default(), &composite).contains("/console/server?"), "it has no page");
        let denied = Call { outcome: "denied".to_owned(), issuer: String::new(), ..of_profile };
        let shown = call(&Frame::default(), &denied);
        assert!(shown.contains("&amp;profile=p%26q#access\">Why may this client not call it?"), "{shown}");
        assert!(
            !shown.contains("tool?name=jira_%3Cb%3Esearch%E2%80%AE&amp;who="),
            "an address is no subject"
        );
        for way in [
            "&amp;who=ann&amp;issuer=https%3A%2F%2Fa#access",
            "server?server=jira",
            "calls?server=jira",
            "calls?who=ann&amp;exact=1",
            "calls?tool=jira_%3Cb%3Esearch%E2%80%AE&amp;exact=1&amp;outcome=failed",
        ] {
            assert!(page.contains(way), "{way}: {page}");
        }
    }
}
