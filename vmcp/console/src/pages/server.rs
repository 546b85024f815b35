//! The page of one server: its state, orders to it, its tools, and what else it offers.

pub mod offer;
mod offers;

use maud::{Markup, html};
use vmcp_config::status::BackendStatus;

pub use self::offers::{MAX_OFFERS, Offer, Offers};
use super::catalog::{ToolRow, filter, of_server, tools};
use super::overview::{state, trouble};
use crate::frame::Frame;
use crate::links::{self, link};
use crate::text;

/// The data of the page.
#[derive(Debug, Clone, Default)]
pub struct ServerPage {
    /// State of the server.
    pub status: BackendStatus,
    /// Remedy for its last error.
    pub remedy: Option<String>,
    /// Instructions that it gives to models.
    pub instructions: Option<String>,
    /// Its tools; at most [`PAGE_SIZE`](super::catalog::PAGE_SIZE).
    pub tools: Vec<ToolRow>,
    /// Number of all its tools.
    pub total: usize,
    /// Its resources, templates and prompts.
    pub offers: Offers,
    /// True if it is switched on; `None` if this process does not change its servers.
    pub is_switched_on: Option<bool>,
    /// Its tools whose definition changed, the newest first: own name, state and time of the change; at most
    /// [`MAX_CHANGES`].
    pub changes: Vec<(String, String, String)>,
}

/// Most changed tools that the page lists.
pub const MAX_CHANGES: usize = 50;

/// Returns the page.
pub fn server(frame: &Frame, data: &ServerPage) -> String {
    let ServerPage { status, remedy, instructions, tools: rows, total, offers, changes, is_switched_on } =
        data;
    let query = [("server", status.name.as_str())];
    let content = html! {
        p.lead { (state(status)) }
        (trouble(status, remedy.as_deref()))
        div.actions {
            (frame.form(&link("refresh", &query), &html! { button { "List its tools again" } }))
            (frame.careful_form(
                &link("restart", &query),
                "Connect again",
                "This ends the connection, and the program behind it: calls under way fail.",
                "End it, and connect again",
            ))
            @if *is_switched_on == Some(true) {
                (frame.careful_form(
                    &link("disable", &query),
                    "Switch off",
                    "Clients lose its tools at once. The configuration keeps the server, switched off.",
                    "Switch it off",
                ))
            }
            @if *is_switched_on == Some(false) {
                (frame.form(&link("enable", &query), &html! { button { "Switch on" } }))
            }
        }
        p {
            a href=(link("calls", &query)) { "Its latest calls" } ", "
            a href=(link("calls", &[("server", &status.name), ("outcome", "failed")])) { "those that failed" } ", "
            a href=(link("usage", &query)) { "its usage by day" } "."
        }
        @if !changes.is_empty() {
            h2 { "Changed definitions" }
            ul {
                @for (tool, state, at) in changes {
                    li { a href=(links::tool(&status.name, tool)) { (text::line(tool)) } ": " (change_state(state)) ", noticed at " (at) }
                }
            }
        }
        h2 { "Facts" }
        (facts(status))
        @if let Some(instructions) = instructions {
            h2 { "Instructions to models" }
            (text::prose(instructions))
        }
        h2 { "Tools" }
        @if rows.is_empty() { p { "No tool is known. The server lists none, or has not been listed yet." } }
        @else {
            @if rows.len() < *total { p { "The first " (rows.len()) " of " a href=(of_server(&status.name)) { (total) " tools" } "." } }
            (filter("tr[data-row]", "Filter"))
            (tools(rows, false))
        }
        (offers::offers(offers))
    };
    frame.page("tools", &format!("Server {}", text::inert(&status.name, text::MAX_LINE)), &content)
}

/// Returns the state of a change in words.
fn change_state(state: &str) -> &str {
    match state {
        "pending" => "waits for approval",
        "accepted" => "in force",
        "approved" => "approved",
        other => other,
    }
}

fn facts(status: &BackendStatus) -> Markup {
    let self_reported =
        [&status.server_name, &status.server_version].map(|part| part.as_deref().unwrap_or_default());
    let era = [&status.era, &status.revision].map(|part| part.as_deref().unwrap_or_default());
    let facts = [
        ("Transport", status.transport.clone()),
        ("Era", era.join(" ").trim().to_owned()),
        ("Calls itself", self_reported.join(" ").trim().to_owned()),
        ("Credentials", status.credentials.clone().unwrap_or_default()),
        ("Proxy", status.proxy.clone().unwrap_or_default()),
        ("Resources", status.resources.to_string()),
        ("Templates", status.templates.to_string()),
        ("Prompts", status.prompts.to_string()),
        ("Rejected definitions", status.rejected.to_string()),
        ("Connections after the first", status.restarts.to_string()),
        ("Sessions for clients", status.sessions.to_string()),
    ];
    let times = [
        ("Connected since", status.connected_at),
        ("Listed at", status.last_refresh),
        ("Signed in at", status.signed_in_at),
    ];
    html! {
        dl.facts {
            @for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) { dt { (name) } dd { (text::line(value)) } }
            @for (name, time) in times {
                @if let Some(time) = time { dt { (name) } dd { (humantime::format_rfc3339_seconds(time)) } }
            }
            @if let Some(changes) = &status.changes {
                dt { "Last listing" }
                dd { (changes.added) " added, " (changes.updated) " changed, " (changes.removed) " removed, " (changes.unchanged) " as before" }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_carry_the_form_token_and_the_name() {
        let status = BackendStatus { name: "jira".to_owned(), ..BackendStatus::default() };
        let frame = Frame { form_token: "t0ken".to_owned(), ..Frame::default() };
        let page = server(&frame, &ServerPage { status, ..ServerPage::default() });
        assert_eq!(page.matches("name=\"form_token\" value=\"t0ken\"").count(), 2, "{page}");
        assert!(page.contains("action=\"/console/restart?server=jira\""), "{page}");
        assert!(page.contains("href=\"/console/calls?server=jira&amp;outcome=failed\""), "{page}");
    }

    #[test]
    fn a_server_is_switched_where_the_process_may_change_it() {
        let page = |is_switched_on| {
            let status = BackendStatus { name: "x&y".to_owned(), ..BackendStatus::default() };
            server(&Frame::default(), &ServerPage { status, is_switched_on, ..ServerPage::default() })
        };
        let orders = |page: &str| {
            ["disable", "enable"].map(|order| page.contains(&format!("/console/{order}?server=x%26y\"")))
        };
        assert_eq!(orders(&page(None)), [false, false]);
        assert_eq!(orders(&page(Some(true))), [true, false]);
        assert_eq!(orders(&page(Some(false))), [false, true]);
    }

    #[test]
    fn what_a_server_says_about_itself_is_inert() {
        let status = BackendStatus {
            name: "x".to_owned(),
            server_name: Some("<img src=x onerror=alert(1)>".to_owned()),
            last_error: Some("\u{1b}]0;owned\u{7}".to_owned()),
            ..BackendStatus::default()
        };
        let instructions = Some(format!("<script>{}", "x".repeat(1 << 20)));
        let changes = vec![("<img>".to_owned(), "pending".to_owned(), "2026-01-01T00:00:00Z".to_owned())];
        let data = ServerPage { status, instructions, changes, ..ServerPage::default() };
        let page = server(&Frame::default(), &data);
        assert!(page.contains("waits for approval"), "{page}");
        assert!(!page.contains("<img") && !page.contains("<script>") && !page.contains('\u{1b}'), "{page}");
        assert!(page.len() < 20_000, "{}", page.len());
    }
}
