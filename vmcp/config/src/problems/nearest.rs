//! Suggestions ("did you mean …?") by normalized Damerau-Levenshtein distance.

/// Least similarity, from 0 to 1, at which one word is suggested for another.
const MIN_SIMILARITY: f64 = 0.6;

/// Returns the candidate most like `word`, or `None` if none reaches [`MIN_SIMILARITY`]. Case, `_` and `-` do
/// not count; of equals, the first wins.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.to_ascii_lowercase().replace(['_', '-', ' '], "");
    let word = plain(word);
    let likeness = |candidate: &str| {
        let candidate = plain(candidate);
        // A part of a word counts as similar: `http` for `streamable-http`, `timeouts` for `timeout`.
        let contained = word.len() >= 3 && (candidate.contains(&word) || word.contains(&candidate));
        let distance = strsim::normalized_damerau_levenshtein(&word, &candidate);
        if contained { distance.max(MIN_SIMILARITY) } else { distance }
    };
    let mut best: Option<(f64, &str)> = None;
    for candidate in candidates {
        let score = likeness(candidate);
        if score >= MIN_SIMILARITY && best.is_none_or(|(most, _)| score > most) {
            best = Some((score, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Returns "did you mean `exposure`?", or `or_else` and the list of candidates.
pub(crate) fn suggest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str> + Clone,
    or_else: &str,
) -> String {
    match nearest(word, candidates.clone()) {
        Some(candidate) => format!("did you mean `{candidate}`?"),
        None => format!("{or_else}{}", quoted_list(candidates)),
    }
}

/// Formats words as `` `a`, `b`, `c` ``: at most thirty, then the number of all.
pub(crate) fn quoted_list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<_> = words.into_iter().map(|word| format!("`{word}`")).collect();
    match words.get(..30) {
        Some(first) => format!("{}, … ({} in all)", first.join(", "), words.len()),
        None => words.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_what_is_alike_and_nothing_else() {
        let keys = ["exposure", "search", "embeddings", "streamable-http"];
        assert_eq!(nearest("exposre", keys), Some("exposure"));
        assert_eq!(nearest("Exposure", keys), Some("exposure"));
        assert_eq!(nearest("http", keys), Some("streamable-http"));
        assert_eq!(nearest("zebra", keys), None);
        assert_eq!(suggest("zebra", keys[..2].iter().copied(), "known: "), "known: `exposure`, `search`");
    }
}
