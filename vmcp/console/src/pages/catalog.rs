//! The catalog: the servers, and every tool, hidden ones included, by words and server.

use maud::{Markup, html};

use crate::frame::{Frame, table};
use crate::links::{self, link};
use crate::text;

/// Most tools on a page.
pub const PAGE_SIZE: usize = 500;
/// Most characters of a description in the table.
const MAX_SUMMARY: usize = 160;
/// Most servers in the list and in the form; a server that is left out can be named in the address.
const MAX_SERVERS: usize = 1_000;
/// Most words of a choice of tools; further ones are left out.
const MAX_WORDS: usize = 16;

/// The data of the page.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// The tools of this page; at most [`PAGE_SIZE`].
    pub rows: Vec<ToolRow>,
    /// Number of the first of them among the tools that fit.
    pub first: usize,
    /// Tools that fit the choice.
    pub fitting: usize,
    /// All tools.
    pub total: usize,
    /// Choice of tools.
    pub filter: CatalogFilter,
    /// Servers by name, each with the number of its tools.
    pub servers: Vec<(String, usize)>,
}

/// A choice of tools, as its form holds it; an empty text admits every tool.
#[derive(Debug, Clone, Default)]
pub struct CatalogFilter {
    /// Words that a tool's names, server or description hold, in any order and case.
    pub words: String,
    /// Name of the server.
    pub server: String,
}

impl CatalogFilter {
    /// Returns a test for the texts of a tool of a server, by the name of the server.
    pub fn test(&self) -> impl Fn(&str, &[&str]) -> bool + use<> {
        let server = self.server.clone();
        let words: Vec<_> = self.words.split_whitespace().take(MAX_WORDS).map(str::to_lowercase).collect();
        move |of_server, texts| {
            if !server.is_empty() && server != of_server {
                return false;
            }
            // The texts are joined: words may be of several of them.
            let joined = if words.is_empty() { String::new() } else { texts.join(" ").to_lowercase() };
            words.iter().all(|word| joined.contains(word))
        }
    }

    fn is_empty(&self) -> bool {
        self.words.trim().is_empty() && self.server.is_empty()
    }
}

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

/// Returns the page.
pub fn catalog(frame: &Frame, data: &Catalog) -> String {
    let Catalog { rows, first, fitting, total, filter, servers } = data;
    let next = first + rows.len();
    let content = html! {
        (choice(filter, servers))
        p role="status" data-count {
            @if filter.is_empty() { "Each server's tools, hidden ones included. " (total) " in all" }
            @else { (fitting) " of " (total) " tools fit" }
            @if rows.len() < *fitting { "; here are " (first + 1) " to " (next) } "."
        }
        div data-results {
            @if filter.is_empty() && *first == 0 && servers.len() > 1 { (server_list(servers)) }
            @if rows.is_empty() { p { "No tool fits." } } @else { (tools(rows, true)) }
            @if *first > 0 || next < *fitting {
                nav aria-label="Pages" { p {
                    @if *first > 0 { a href=(page_at(filter, first.saturating_sub(PAGE_SIZE))) { "Earlier tools" } " " }
                    @if next < *fitting { a href=(page_at(filter, next)) { "Further tools" } }
                } }
            }
        }
    };
    frame.page("tools", "Tools", &content)
}

/// The form that chooses tools among all of them; the script sends it while a person types.
fn choice(filter: &CatalogFilter, servers: &[(String, usize)]) -> Markup {
    let mut shown = servers.iter().take(MAX_SERVERS);
    let is_listed = filter.server.is_empty() || shown.any(|(server, _)| *server == filter.server);
    html! {
        form.filter method="get" action=(link("tools", &[])) data-as-you-type {
            div.field { label for="q" { "Words" } input id="q" name="q" type="search" autocomplete="off" value=(filter.words); }
            div.field {
                label for="server" { "Server" }
                select id="server" name="server" {
                    option value="" { "any" }
                    @for (server, _) in servers.iter().take(MAX_SERVERS) {
                        option value=(server) selected[*server == filter.server] { (text::inert(server, MAX_SUMMARY)) }
                    }
                    @if !is_listed { option value=(filter.server) selected { (text::inert(&filter.server, MAX_SUMMARY)) } }
                }
            }
            button { "Find" }
        }
    }
}

fn server_list(servers: &[(String, usize)]) -> Markup {
    html! {
        h2 { "Servers" }
        ul.servers {
            @for (server, tools) in servers.iter().take(MAX_SERVERS) {
                li { a href=(of_server(server)) { (text::line(server)) } " " span.quiet-text { (tools) } }
            }
        }
        @if servers.len() > MAX_SERVERS { p { "The first " (MAX_SERVERS) " of " (servers.len()) " servers." } }
        h2 { "All tools" }
    }
}

/// Returns the address of the tools of a server.
pub(crate) fn of_server(server: &str) -> String {
    link("tools", &[("server", server)])
}

fn page_at(filter: &CatalogFilter, first: usize) -> String {
    let first = first.to_string();
    let mut query = vec![("from", first.as_str())];
    let chosen = [("q", filter.words.as_str()), ("server", filter.server.as_str())];
    query.extend(chosen.into_iter().filter(|(_, text)| !text.is_empty()));
    link("tools", &query)
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
                    @if with_server { td { (links::of_server(&row.server)) } }
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
        let data = Catalog { rows: vec![row], fitting: 700, total: 700, ..Catalog::default() };
        let page = catalog(&Frame::default(), &data);
        assert!(
            page.contains("href=\"/console/tool?server=s&amp;tool=javascript%3Aalert%281%29%22%26x%3D\""),
            "{page}"
        );
        assert!(page.contains("<bdi>a&lt;b&gt;</bdi>") && page.len() < 8_000, "{}", page.len());
        assert!(page.contains("href=\"/console/tools?from=1\""), "further tools: {page}");
    }

    #[test]
    fn words_are_of_names_servers_and_descriptions_in_any_order() {
        let filter = |words: &str, server: &str| {
            let (words, server) = (words.to_owned(), server.to_owned());
            CatalogFilter { words, server }.test()("jira", &["jira_Get_issue", "Reads ONE ticket."])
        };
        assert!(filter("", "") && filter(" ticket GET ", "") && filter("one", "jira"));
        assert!(!filter("ticket note", "") && !filter("", "jir") && !filter("", "other"));
    }

    #[test]
    fn a_large_catalog_begins_with_its_servers_and_pages_keep_the_choice() {
        let servers = vec![("a<b>".to_owned(), 600), ("c".to_owned(), 300)];
        let rows = vec![ToolRow::default(); 2];
        let data = Catalog { rows, fitting: 900, total: 900, servers, ..Catalog::default() };
        let page = catalog(&Frame::default(), &data);
        assert!(
            page.contains("<a href=\"/console/tools?server=a%3Cb%3E\"><bdi>a&lt;b&gt;</bdi></a>"),
            "{page}"
        );
        assert!(page.contains("900 in all; here are 1 to 2."), "{page}");
        let filter = CatalogFilter { words: "x&y".to_owned(), server: "c".to_owned() };
        let page = catalog(&Frame::default(), &Catalog { fitting: 700, filter, ..data });
        assert!(page.contains("700 of 900 tools fit") && !page.contains("ul class=\"servers\""), "{page}");
        assert!(page.contains("from=2&amp;q=x%26y&amp;server=c\""), "further tools: {page}");
        assert!(page.contains("<option value=\"c\" selected>"), "{page}");
        let filter = CatalogFilter { server: "gone&".to_owned(), ..CatalogFilter::default() };
        let page = catalog(&Frame::default(), &Catalog { filter, ..Catalog::default() });
        assert!(page.contains("<option value=\"gone&amp;\" selected>gone&amp;</option>"), "{page}");
        let none = catalog(&Frame::default(), &Catalog::default());
        assert!(none.contains("No tool fits."), "{none}");
    }
}
