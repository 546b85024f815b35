//! "Did you mean …?"

/// How alike two words must be, from 0 to 1, before one is offered for the other.
const MIN_SIMILARITY: f64 = 0.6;

/// The candidate most like `word`, if any is like it at all. Case and `_`/`-` are no difference; of equals, the first.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.to_ascii_lowercase().replace(['_', '-', ' '], "");
    let word = plain(word);
    let likeness = |candidate: &str| {
        let candidate = plain(candidate);
        // `http` is meant to be `streamable-http`, `timeouts` to be `timeout`.
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

/// "did you mean `exposure`?", or the list of what there is.
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

/// `` `a`, `b`, `c` ``, at most thirty of them.
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
