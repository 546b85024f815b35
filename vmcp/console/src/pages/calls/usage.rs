//! Usage over days: calls, failures, searches and saved tokens of each day, and the most called tools.

use maud::{Markup, html};

use crate::chart::{self, Column, chart};
use crate::frame::{Frame, table};
use crate::links::{self, link};
use crate::pages::clients::Replicas;
use crate::text;

/// Choices of days to look back.
const PERIODS: [u32; 4] = [7, 30, 90, MAX_DAYS];
/// Most days on the page.
pub const MAX_DAYS: u32 = 365;
/// Most tools on the page, the most called ones.
pub const MAX_TOOLS: usize = 100;

/// The data of the page.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    /// Days to look back, as the form holds it.
    pub period: u32,
    /// Server whose tools are chosen; empty: every one.
    pub server: String,
    /// Tool that is chosen, by its own name at its server; empty: every one.
    pub tool: String,
    /// The days, newest first; `None`: the sums cannot be read now.
    pub days: Option<Vec<DayUsage>>,
    /// The most called tools; at most [`MAX_TOOLS`].
    pub tools: Vec<ToolUsage>,
    /// Replicas in the sums; `None` if `server.peers` names none.
    pub replicas: Option<Replicas>,
}

/// Calls and searches of one day.
#[derive(Debug, Clone, Default)]
pub struct DayUsage {
    /// The day (UTC), such as `2026-11-27`.
    pub day: String,
    /// Calls.
    pub calls: u64,
    /// Calls that failed.
    pub failures: u64,
    /// Mean latency in milliseconds; `None` on a day that had no call.
    pub latency_ms: Option<f64>,
    /// Searches.
    pub searches: u64,
    /// Searches that found no tool.
    pub without_result: u64,
    /// Searches after which no found tool was called.
    pub without_call: u64,
    /// Tokens that the answers of searches cost less than the definitions of all tools.
    pub tokens_saved: u64,
}

/// Calls of one tool on all these days.
#[derive(Debug, Clone, Default)]
pub struct ToolUsage {
    /// Its server.
    pub server: String,
    /// Its name there.
    pub tool: String,
    /// Calls.
    pub calls: u64,
    /// Calls that failed.
    pub failures: u64,
    /// Mean latency in milliseconds.
    pub latency_ms: f64,
}

impl Usage {
    /// Returns true if the page is about some tools only; searches are of all tools.
    fn is_of_some_tools(&self) -> bool {
        !self.server.is_empty() || !self.tool.is_empty()
    }
}

/// Returns the page.
pub fn usage(frame: &Frame, data: &Usage) -> String {
    let content = html! {
        p { "Calls of tools and searches by day (UTC). Calls that were refused or cancelled say nothing about a tool: "
            "they are among the " a href=(link("calls", &[])) { "latest calls" } " alone." }
        (form(data))
        @if let Some(replicas) = &data.replicas { (summed_replicas(replicas)) }
        @match &data.days {
            None => p.notice.problem {
                "The sums cannot be read now: the " a href=(link("logs", &[])) { "log" } " says why. Load the page again."
            },
            Some(days) => (sums(data, days)),
        }
    };
    frame.page("usage", "Usage", &content)
}

/// Says of how many replicas the sums are, and which are missing.
fn summed_replicas(replicas: &Replicas) -> Markup {
    html! {
        p.quiet-text { "Sums of " (replicas.answering) " replicas, this one included." }
        @if !replicas.unreachable.is_empty() {
            p.notice.problem {
                "Without an answer, and so missing in the sums: " (text::line(&replicas.unreachable.join(", "))) "."
            }
        }
    }
}

fn form(data: &Usage) -> Markup {
    html! {
        form.filter method="get" action=(link("usage", &[])) {
            div.field {
                label for="days" { "Days" }
                select id="days" name="days" {
                    @for period in PERIODS { option value=(period) selected[period == data.period] { (period) } }
                    @if !PERIODS.contains(&data.period) { option value=(data.period) selected { (data.period) } }
                }
            }
            div.field { label for="server" { "Server" } input id="server" name="server" type="search" value=(data.server); }
            div.field { label for="tool" { "Tool, by its name there" } input id="tool" name="tool" type="search" value=(data.tool); }
            button { "Show" }
        }
    }
}

fn sums(data: &Usage, days: &[DayUsage]) -> Markup {
    let sum = |of: fn(&DayUsage) -> u64| days.iter().map(of).fold(0, u64::saturating_add);
    let (calls, failures) = (sum(|day| day.calls), sum(|day| day.failures));
    let searches = sum(|day| day.searches);
    let column = |day: &DayUsage, all: u64, part: u64| Column { day: day.day.clone(), all, part };
    let of_calls: Vec<_> = days.iter().rev().map(|day| column(day, day.calls, day.failures)).collect();
    let of_searches: Vec<_> =
        days.iter().rev().map(|day| column(day, day.searches, day.without_result)).collect();
    html! {
        ul.figures {
            li { strong { (calls) } "calls" }
            li { strong { (failures) } "failed" @if calls > 0 { " (" (text::percent(failures as f64 / calls as f64)) ")" } }
            @if !data.is_of_some_tools() {
                li { strong { (searches) } "searches" }
                li { strong { (sum(|day| day.without_result)) } "found no tool" }
                li { strong { (sum(|day| day.without_call)) } "led to no call" }
                li { strong { (sum(|day| day.tokens_saved)) } "tokens saved by searches" }
            }
        }
        h2 { "Calls by day" }
        @if calls == 0 { p { "No call was counted in this time." } } @else { (chart("Calls", "failed", &of_calls)) }
        @if !data.is_of_some_tools() && searches > 0 {
            h2 { "Searches by day" }
            (chart("Searches", "found no tool", &of_searches))
            p { a href=(link("wanted", &[])) { "What was searched and not found" } "." }
        }
        @if !data.tools.is_empty() {
            h2 { "Tools" }
            @if data.tools.len() >= MAX_TOOLS { p { "The " (MAX_TOOLS) " most called tools." } }
            (tools(data))
        }
        h2 { "Days" }
        (day_table(data, days))
    }
}

fn tools(data: &Usage) -> Markup {
    let most = data.tools.iter().map(|tool| tool.calls).max().unwrap_or_default();
    table(
        "Tools",
        &["Tool", "Server", "Calls", "Share of the most called", "Failed", "Latency"],
        &html! {
            @for tool in &data.tools {
                tr {
                    th scope="row" { a href=(links::tool(&tool.server, &tool.tool)) { (text::line(&tool.tool)) } }
                    td { (links::of_server(&tool.server)) }
                    td.number { (tool.calls) }
                    td { (chart::bar(tool.calls, tool.failures, most)) }
                    td.number { (failed(tool.calls, tool.failures)) }
                    td.number { (text::milliseconds(tool.latency_ms)) }
                }
            }
        },
    )
}

fn day_table(data: &Usage, days: &[DayUsage]) -> Markup {
    let mut head = vec!["Day", "Calls", "Failed", "Latency"];
    if !data.is_of_some_tools() {
        head.extend(["Searches", "Found no tool", "Led to no call", "Tokens saved"]);
    }
    table(
        "Days",
        &head,
        &html! {
            @for day in days {
                tr {
                    th scope="row" { (day.day) }
                    td.number { (day.calls) }
                    td.number { (failed(day.calls, day.failures)) }
                    td.number { @if let Some(latency) = day.latency_ms { (text::milliseconds(latency)) } @else { "–" } }
                    @if !data.is_of_some_tools() {
                        @for count in [day.searches, day.without_result, day.without_call, day.tokens_saved] {
                            td.number { (count) }
                        }
                    }
                }
            }
        },
    )
}

/// Shows the number of failures, with their share of the calls.
fn failed(calls: u64, failures: u64) -> Markup {
    html! {
        @if failures == 0 { "0" }
        @else { span.bad { (failures) " (" (text::percent(failures as f64 / calls.max(1) as f64)) ")" } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Usage {
        let day = |day: &str, calls, failures, searches| DayUsage {
            day: day.to_owned(),
            calls,
            failures,
            searches,
            tokens_saved: 1000 * searches,
            ..DayUsage::default()
        };
        let tool = ToolUsage {
            server: "s".to_owned(),
            tool: "<b>&\u{202e}".to_owned(),
            calls: 8,
            failures: 2,
            latency_ms: 5.0,
        };
        Usage {
            period: 30,
            days: Some(vec![day("2026-11-27", 6, 2, 3), day("2026-11-26", 2, 0, 1)]),
            tools: vec![tool],
            ..Usage::default()
        }
    }

    #[test]
    fn days_have_sums_a_chart_and_a_table_with_the_same_numbers() {
        let page = usage(&Frame::default(), &sample());
        for part in [
            "<strong>8</strong>calls",
            "<strong>2</strong>failed (25 %)",
            "<strong>4000</strong>tokens saved by searches",
            "<th scope=\"row\">2026-11-27</th><td class=\"number\">6</td>",
            "Calls by day, 2026-11-26 to 2026-11-27",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("style="), "the policy allows no inline style: {page}");
    }

    #[test]
    fn a_tool_is_inert_and_leads_to_its_page() {
        let page = usage(&Frame::default(), &sample());
        assert!(page.contains("<bdi>&lt;b&gt;&amp;⟨U+202E⟩</bdi>"), "{page}");
        assert!(page.contains("href=\"/console/tool?server=s&amp;tool=%3Cb%3E%26%E2%80%AE\""), "{page}");
    }

    #[test]
    fn sums_of_replicas_say_so_and_name_the_missing_ones() {
        let page = |replicas| usage(&Frame::default(), &Usage { replicas, ..sample() });
        assert!(!page(None).contains("replicas"), "one process");
        let all = page(Some(Replicas { answering: 3, unreachable: Vec::new() }));
        assert!(all.contains("Sums of 3 replicas, this one included.") && !all.contains("missing"), "{all}");
        let some = page(Some(Replicas { answering: 2, unreachable: vec!["gone<b>:9090".to_owned()] }));
        assert!(some.contains("missing in the sums: <bdi>gone&lt;b&gt;:9090</bdi>"), "{some}");
    }

    #[test]
    fn the_usage_of_one_server_leaves_searches_out() {
        let page = usage(&Frame::default(), &Usage { server: "s".to_owned(), ..sample() });
        assert!(page.contains("value=\"s\"") && !page.contains("Tokens saved"), "{page}");
    }

    #[test]
    fn a_database_that_cannot_be_read_is_named_and_empty_days_are_told() {
        let page = usage(&Frame::default(), &Usage { days: None, ..sample() });
        assert!(page.contains("The sums cannot be read now"), "{page}");
        let page = usage(&Frame::default(), &Usage { days: Some(Vec::new()), ..Usage::default() });
        assert!(page.contains("No call was counted in this time."), "{page}");
    }
}
