//! The catalog: every tool, hidden ones included, by server.

use maud::{Markup, html};

use crate::frame::{Frame, table};
use crate::links::{self, link};
use crate::text;

/// Most tools on a page.
pub const PAGE_SIZE: usize = 500;
/// Most characters of a description in the table.
const MAX_SUMMARY: usize = 160;

/// A tool in the table.
#[derive(Debug, Clone, Default)]
pub struct ToolRow {
    /// Name under which clients call it.
    pub name: String,
    /// Its server.
    pub server: String,
    /// Its name there.
    pub original: String,
    /// Description as clients see it.
    pub description: String,
    /// The way by which clients reach it.
    pub visibility: Visibility,
    /// Tokens that it costs in a list.
    pub tokens: u32,
}

/// Ways by which clients reach a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Visibility {
    /// Searches find it, and calls reach it.
    #[default]
    Found,
    /// As [`Visibility::Found`], but lists leave it out: clients would refuse a list with its definition.
    OnlyFound,
    /// A filter hides it: neither listed nor callable.
    Hidden,
    /// Hidden until its changed definition is approved.
    Quarantined,
}

impl Visibility {
    /// Returns the state in words.
    pub fn words(self) -> &'static str {
        match self {
            Visibility::Found => "found and called",
            Visibility::OnlyFound => "found, left out of lists",
            Visibility::Hidden => "hidden by a filter",
            Visibility::Quarantined => "waits for approval",
        }
    }

    fn class(self) -> &'static str {
        match self {
            Visibility::Found => "good",
            Visibility::OnlyFound => "warn",
            Visibility::Hidden => "quiet-text",
            Visibility::Quarantined => "bad",
        }
    }

    /// Shows the state.
    pub fn shown(self) -> Markup {
        html! { span class=(self.class()) { (self.words()) } }
    }
}

/// Returns the page with the tools from number `first` on; `rows` are those of this page, `total` counts all.
pub fn catalog(frame: &Frame, rows: &[ToolRow], first: usize, total: usize) -> String {
    let next = first + rows.len();
    let content = html! {
        p { "Each server's tools, hidden ones included. " (total) " in all"
            @if rows.len() < total { "; here are " (first + 1) " to " (next) } "." }
        (filter("tr[data-row]", "Filter the tools of this page"))
        (tools(rows, true))
        @if first > 0 || next < total {
            nav aria-label="Pages" { p {
                @if first > 0 { a href=(page_at(first.saturating_sub(PAGE_SIZE))) { "Earlier tools" } " " }
                @if next < total { a href=(page_at(next)) { "Further tools" } }
            } }
        }
    };
    frame.page("tools", "Tools", &content)
}

fn page_at(first: usize) -> String {
    link("tools", &[("from", &first.to_string())])
}

/// A box that the script shows: it filters the rows that `selector` names.
pub(crate) fn filter(selector: &str, label: &str) -> Markup {
    html! {
        div.field data-filter=(selector) hidden {
            label for="filter" { (label) }
            input id="filter" type="search" autocomplete="off";
            p.hint role="status" {}
        }
    }
}

/// Shows tools as a table.
pub(crate) fn tools(rows: &[ToolRow], with_server: bool) -> Markup {
    let mut head = vec!["Tool", "Server", "For clients", "Tokens", "Description"];
    if !with_server {
        head.remove(1);
    }
    table(
        "Tools",
        &head,
        &html! {
            @for row in rows {
                tr data-row {
                    th scope="row" { a href=(links::tool(&row.server, &row.original)) { (text::line(&row.name)) } }
                    @if with_server { td { a href=(links::server(&row.server)) { (text::line(&row.server)) } } }
                    td { (row.visibility.shown()) }
                    td.number { (row.tokens) }
                    td.wide { bdi { (text::inert(&row.description, MAX_SUMMARY)) } }
                }
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_servers_are_inert_and_their_links_encoded() {
        let row = ToolRow {
            name: "a<b>".to_owned(),
            server: "s".to_owned(),
            original: "javascript:alert(1)\"&x=".to_owned(),
            description: "d".repeat(1_000_000),
            ..ToolRow::default()
        };
        let page = catalog(&Frame::default(), &[row], 0, 700);
        assert!(
            page.contains("href=\"/console/tool?server=s&amp;tool=javascript%3Aalert%281%29%22%26x%3D\""),
            "{page}"
        );
        assert!(page.contains("<bdi>a&lt;b&gt;</bdi>") && page.len() < 8_000, "{}", page.len());
        assert!(page.contains("href=\"/console/tools?from=1\""), "further tools: {page}");
    }
}
