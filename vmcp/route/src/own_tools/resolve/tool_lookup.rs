//! Lookup of the tool that a model means: names with a client's prefix or other separators, bare names, and
//! the nearest names of an unknown tool.

use std::sync::Arc;

use vmcp_model::catalog::CatalogTool;

use vmcp_engine::engine::View;

/// Prefixes that clients put before the names of a server's tools; `*` stands for the client's own name of
/// this server.
const CLIENT_PREFIXES: [&str; 6] = ["mcp__*__", "mcp_*_", "functions_", "tools_", "vmcp__", "vmcp_"];
/// Most names that are suggested.
const MAX_SUGGESTIONS: usize = 3;
/// Least similarity, from 0 to 1, of a name that is suggested.
const MIN_SIMILARITY: f64 = 0.6;

/// Returns the tools that `name` may mean although no tool has it: without a client's prefix, with other
/// separators or letter case, or by the backend's own name where only one backend has it.
pub(in crate::own_tools) fn alike<'a>(view: &'a View, name: &str) -> Vec<&'a Arc<CatalogTool>> {
    let candidates = candidates(name);
    let listed = |tool: &CatalogTool| candidates.contains(&plain(&tool.name));
    let bare = |tool: &CatalogTool| candidates.contains(&plain(&tool.definition.name));
    let found: Vec<_> = view.tools().filter(|tool| listed(tool)).collect();
    if found.is_empty() { view.tools().filter(|tool| bare(tool)).collect() } else { found }
}

/// Returns the names most like `name`, best first, of tools that `may_name` lets the caller know; never the
/// name itself.
pub(in crate::own_tools) fn nearest<'a>(
    view: &'a View,
    name: &str,
    may_name: impl Fn(&Arc<CatalogTool>) -> bool,
) -> Vec<&'a str> {
    let wanted = candidates(name);
    let likeness = |tool: &'a Arc<CatalogTool>| {
        let names = [plain(&tool.name), plain(&tool.definition.name)];
        let pairs = wanted.iter().flat_map(|one| names.iter().map(move |other| (one, other)));
        let best = pairs.map(|(one, other)| strsim::normalized_damerau_levenshtein(one, other));
        (best.fold(0.0, f64::max), tool)
    };
    let others = view.tools().filter(|tool| !wanted.contains(&plain(&tool.name)));
    let mut scored: Vec<_> = others.map(likeness).filter(|(score, _)| *score >= MIN_SIMILARITY).collect();
    scored.sort_by(|one, other| other.0.total_cmp(&one.0).then_with(|| one.1.name.cmp(&other.1.name)));
    let known = scored.into_iter().map(|(_, tool)| tool).filter(|tool| may_name(tool));
    known.take(MAX_SUGGESTIONS).map(|tool| tool.name.as_str()).collect()
}

/// Returns the plain forms of a name: whole, and without each prefix of a client that it has.
fn candidates(name: &str) -> Vec<String> {
    let lower = name.to_ascii_lowercase().replace(['.', '/', ':'], "_");
    let stripped = CLIENT_PREFIXES.iter().filter_map(|prefix| match prefix.split_once('*') {
        None => lower.strip_prefix(prefix),
        Some((before, after)) => {
            let (_, rest) = lower.strip_prefix(before)?.split_once(after)?;
            Some(rest)
        }
    });
    let mut candidates: Vec<String> = std::iter::once(lower.as_str()).chain(stripped).map(plain).collect();
    candidates.retain(|candidate| !candidate.is_empty());
    candidates
}

/// Returns a name in lower case, with one `_` for each run of other characters than letters and digits.
fn plain(name: &str) -> String {
    let words = name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("_").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_clients_and_separators_do_not_count() {
        for name in [
            "mcp__vmcp__time_get_current_time",
            "mcp_vmcp_time_get_current_time",
            "time.get_current_time",
            "time__get-current-time",
            "functions.time_get_current_time",
        ] {
            assert!(candidates(name).contains(&"time_get_current_time".to_owned()), "{name}");
        }
        assert_eq!(plain("API-post-search"), "api_post_search");
    }
}
