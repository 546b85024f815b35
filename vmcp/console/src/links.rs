//! Addresses within the console. Names of servers and tools travel in the query, encoded: they may hold any
//! character.

use url::form_urlencoded::Serializer;

/// Path below which the console is served.
pub const ROOT: &str = "/console/";

/// Pair of the query of calls that makes its names whole ones: `bob` is not `bobby`.
pub const EXACT: (&str, &str) = ("exact", "1");

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

/// Returns the address of the calls of a caller.
pub fn calls_of(who: &str) -> String {
    link("calls", &[("who", who), EXACT])
}
