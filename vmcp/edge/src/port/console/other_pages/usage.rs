//! The data of the page about usage over days.

use axum::Extension;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use serde::Deserialize;
use vmcp_console::pages::calls::usage::{
    DayUsage, MAX_DAYS, MAX_TOOLS, ToolUsage, Usage, usage as usage_page,
};
use vmcp_console::pages::clients::Replicas;
use vmcp_engine::engine::replicas::TotalUsage;
use vmcp_engine::telemetry::tool_metrics::history::HistoryQuery;
use vmcp_engine::telemetry::tool_metrics::usage::{UsageDay, UsageReport, UsageTool};

use crate::port::console::access::{ConsoleDoor, Visitor};

/// Days of a page whose request names none.
const DEFAULT_DAYS: u32 = 30;

/// The query `?days=NUMBER&server=NAME&tool=NAME`; the form sends empty names too.
#[derive(Deserialize)]
pub(in crate::port::console) struct UsageQuery {
    days: Option<u32>,
    #[serde(default)]
    server: String,
    #[serde(default)]
    tool: String,
}

/// Answers `GET /console/usage`.
pub(in crate::port::console) async fn show(
    State(door): State<ConsoleDoor>,
    Extension(visitor): Extension<Visitor>,
    Query(UsageQuery { days, server, tool }): Query<UsageQuery>,
) -> Response {
    let period = days.unwrap_or(DEFAULT_DAYS);
    if !(1..=MAX_DAYS).contains(&period) {
        let words = format!("days: write a number from 1 to {MAX_DAYS}\n");
        return (StatusCode::BAD_REQUEST, words).into_response();
    }
    let named = |name: &String| Some(name.clone()).filter(|name| !name.is_empty());
    let wanted = HistoryQuery {
        server: named(&server),
        tool: named(&tool),
        days: Some(period),
        limit: Some(MAX_TOOLS),
    };
    let TotalUsage { usage, census } = door.engine().total_usage(wanted).await;
    let (days, tools) = match usage {
        Some(UsageReport { days, tools }) => (Some(days.into_iter().map(day).collect()), tools),
        None => (None, Vec::new()),
    };
    let data = Usage {
        period,
        server,
        tool,
        days,
        tools: tools.into_iter().map(tool_usage).collect(),
        replicas: census
            .map(|census| Replicas { answering: census.replicas, unreachable: census.unreachable }),
    };
    Html(usage_page(&door.frame(&visitor), &data)).into_response()
}

fn day(day: UsageDay) -> DayUsage {
    DayUsage {
        day: day.day,
        calls: day.calls,
        failures: day.failures,
        latency_ms: day.avg_latency_ms,
        searches: day.searches,
        without_result: day.without_result,
        without_call: day.without_call,
        tokens_saved: day.tokens_saved,
    }
}

fn tool_usage(tool: UsageTool) -> ToolUsage {
    let UsageTool { server, tool, calls, failures, avg_latency_ms } = tool;
    ToolUsage { server, tool, calls, failures, latency_ms: avg_latency_ms }
}
