//! Servers between which a search cannot decide, so that a model can ask its user: "by mail or by chat?"

/// Greatest distance of a score from the first one at which both tools fit equally well. One in four to ten
/// of people's short queries has such a tie between servers; their first tool is wrong about one and a half
/// times as often as elsewhere. Figures: `docs/contributor/search-quality.md`.
const TIE: f32 = 0.02;
/// Most servers that are named.
const MAX_SERVERS: usize = 3;

/// Returns the servers of the hits whose scores tie with the first one, in their order and each once; none
/// if they are all of one server. `hits` are scores and servers, best first.
pub(super) fn tied_servers<'a>(hits: impl IntoIterator<Item = (f32, &'a str)>) -> Vec<&'a str> {
    let mut hits = hits.into_iter().peekable();
    let first = hits.peek().map_or(0.0, |(score, _)| *score);
    let mut servers: Vec<&str> = Vec::new();
    for (_, server) in hits.take_while(|(score, _)| first - score <= TIE) {
        if servers.len() < MAX_SERVERS && !servers.contains(&server) {
            servers.push(server);
        }
    }
    if servers.len() < 2 { Vec::new() } else { servers }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_tie_whose_tools_are_as_near_as_the_first() {
        assert_eq!(tied_servers([(0.90, "mail"), (0.89, "chat"), (0.70, "crm")]), ["mail", "chat"]);
        assert_eq!(tied_servers([(0.90, "mail"), (0.90, "mail"), (0.89, "chat")]), ["mail", "chat"]);
        let many = [(0.90, "a"), (0.90, "b"), (0.90, "c"), (0.90, "d")];
        assert_eq!(tied_servers(many), ["a", "b", "c"]);
    }

    #[test]
    fn a_clear_first_tool_leaves_nothing_to_ask() {
        assert_eq!(tied_servers([(0.90, "mail"), (0.85, "chat")]), [""; 0]);
        assert_eq!(tied_servers([(0.90, "mail"), (0.89, "mail")]), [""; 0]);
        assert_eq!(tied_servers([]), [""; 0]);
    }
}
