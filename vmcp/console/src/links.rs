//! Addresses within the console. Names of servers and tools travel in the query, encoded: they may hold any
//! character.

use maud::{Markup, html};
use url::form_urlencoded::Serializer;

use crate::text;

/// Path below which the console is served.
pub const ROOT: &str = "/console/";

/// Pair of the query of calls that makes its names whole ones: `bob` is not `bobby`.
pub const EXACT: (&str, &str) = ("exact", "1");

/// Name that stands in place of a server's for composite tools.
pub(crate) const COMPOSITE: &str = "composite";

/// Returns the address of a page, with its query.
///
/// ```
/// use vmcp_console::links::link;
///
/// assert_eq!(link("tool", &[("server", "a&b"), ("tool", "x y")]), "/console/tool?server=a%26b&tool=x+y");
/// assert_eq!(link("", &[]), "/console/");
/// ```
pub fn link(page: &str, query: &[(&str, &str)]) -> String {
    let mut address = format!("{ROOT}{page}");
    if !query.is_empty() {
        address.push('?');
        address.push_str(&Serializer::new(String::new()).extend_pairs(query).finish());
    }
    address
}

/// Returns the address of a tool's page.
pub fn tool(server: &str, tool: &str) -> String {
    link("tool", &[("server", server), ("tool", tool)])
}

/// Returns the address of a tool's page, by the name under which clients call it.
pub fn listed_tool(name: &str) -> String {
    link("tool", &[("name", name)])
}

/// Returns the address of a server's page.
pub fn server(name: &str) -> String {
    link("server", &[("server", name)])
}

/// Shows the name of a tool's server, as a link to its page. Composite tools have none.
pub(crate) fn of_server(name: &str) -> Markup {
    html! {
        @if name == COMPOSITE { "vmcp itself, composed of others" }
        @else { a href=(server(name)) { (text::line(name)) } }
    }
}

/// Most characters of a caller's name in an address. A page has hundreds of such addresses, and the subject
/// of a token may have thousands of characters.
const MAX_CALLER_CHARS: usize = 300;

/// Returns the address of the calls of a caller; of a longer name, the calls of all whose names hold its
/// beginning.
///
/// ```
/// use vmcp_console::links::calls_of;
///
/// assert_eq!(calls_of("bob"), "/console/calls?who=bob&exact=1");
/// assert_eq!(calls_of(&"b".repeat(5_000)).len(), "/console/calls?who=".len() + 300);
/// ```
pub fn calls_of(who: &str) -> String {
    match who.char_indices().nth(MAX_CALLER_CHARS) {
        Some((end, _)) => link("calls", &[("who", who.get(..end).unwrap_or_default())]),
        None => link("calls", &[("who", who), EXACT]),
    }
}
