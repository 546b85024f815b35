//! Promotion: a tool that was used for nearly the same query comes among the first three hits.
//!
//! The first hit keeps its place unless three tools are promoted: the remembered query may have had another
//! need in almost the same words.

/// Places that promoted hits take part in.
pub const PLACES: usize = 3;

/// Moves promoted hits among the first [`PLACES`]. `order` returns a hit's place among the promoted ones, if
/// it is one. Hits ahead of a promoted one slide down; the last ones of the first three go first.
pub(crate) fn promote<T>(hits: &mut Vec<T>, order: impl Fn(&T) -> Option<usize>) {
    let order = |hit: &T| order(hit).filter(|place| *place < PLACES);
    let mut missing: Vec<(usize, T)> = Vec::new();
    let mut at = PLACES;
    while let Some(hit) = hits.get(at) {
        match order(hit) {
            Some(place) => missing.push((place, hits.remove(at))),
            None => at += 1,
        }
    }
    missing.sort_by_key(|(place, _)| *place);
    if missing.is_empty() {
        return;
    }
    // As many of the first hits slide down as are missing, from the third upwards; promoted ones stay.
    let head = hits.len().min(PLACES);
    let mut head: Vec<T> = hits.drain(..head).collect();
    let mut slid = Vec::new();
    let mut at = head.len();
    while head.len() + missing.len() > PLACES && at > 0 {
        at -= 1;
        if head.get(at).is_some_and(|hit| order(hit).is_none()) {
            slid.insert(0, head.remove(at));
        }
    }
    head.extend(missing.into_iter().map(|(_, hit)| hit));
    head.extend(slid);
    hits.splice(..0, head);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promoted(hits: &str, tools: &str) -> String {
        let mut hits: Vec<char> = hits.chars().collect();
        promote(&mut hits, |hit| tools.find(*hit));
        hits.into_iter().collect()
    }

    #[test]
    fn a_promoted_hit_comes_third_and_the_others_keep_their_order() {
        assert_eq!(promoted("abcdefg", "f"), "abfcdeg");
        assert_eq!(promoted("abcdefg", "gf"), "agfbcde");
        assert_eq!(promoted("abcdefg", "gfe"), "gfeabcd");
    }

    #[test]
    fn a_hit_that_is_there_already_stays() {
        assert_eq!(promoted("abcdefg", "b"), "abcdefg");
        assert_eq!(promoted("abcdefg", "cf"), "acfbdeg");
        assert_eq!(promoted("abcdefg", ""), "abcdefg");
    }

    #[test]
    fn few_hits_and_too_many_promoted_ones_lose_none() {
        assert_eq!(promoted("", "a"), "");
        assert_eq!(promoted("ab", "b"), "ab");
        assert_eq!(promoted("abcdefg", "gfedcba"), "gfeabcd");
    }
}
