//! Orders the first hits of a ranking by the scores of a cross-encoder, which has read the query and each
//! text together.

use super::{gained, penalty};
use crate::learning;
use crate::query::{Hit, Query, Ranking};

/// Orders the first `scores.len()` hits by `scores`, 0 to 1, one for each in their present order. A tool
/// that fails loses, and a learned one gains, as in a small set: `query` has what is known of them. Ties keep
/// their order; hits behind the ordered ones stay there, and promoted ones stay among the first three.
///
/// ```
/// use vmcp_search::{Document, Index, Query, rerank};
///
/// let tool = |name: &str| Document { name: name.into(), ..Document::default() };
/// let index = Index::new(&[tool("read_file"), tool("read_mail")]);
/// let query = Query { text: "read", ..Query::default() };
/// let mut ranking = index.search(&query, None);
/// rerank(&mut ranking, &[0.1, 0.9], &query);
/// assert_eq!(ranking.hits[0].document, 1);
/// ```
pub fn rerank(ranking: &mut Ranking, scores: &[f32], query: &Query<'_>) {
    let count = scores.len().min(ranking.hits.len());
    let (first, rest) = ranking.hits.split_at_mut(count);
    for (hit, score) in first.iter_mut().zip(scores) {
        // One document makes a small set, whose values go from 0 to 1 as these scores do.
        let documents = [hit.document];
        let known = gained(query, &documents, 0) - penalty(query, &documents, 0).1;
        let score = if score.is_nan() { 0.0 } else { *score };
        hit.score = (score + known).clamp(0.0, 1.0);
        if let Some(explanation) = &mut hit.explanation {
            explanation.rerank_score = Some(score);
        }
    }
    first.sort_by(|one, other| other.score.total_cmp(&one.score));
    let last = first.last().map_or(1.0, |hit| hit.score);
    for hit in rest {
        hit.score = hit.score.min(last);
    }
    let place = |hit: &Hit| query.promoted.iter().position(|promoted| *promoted == hit.document);
    learning::promote(&mut ranking.hits, place);
    let mut floor = 0.0;
    for hit in ranking.hits.iter_mut().rev() {
        hit.score = hit.score.max(floor);
        floor = hit.score;
    }
}

#[cfg(test)]
mod tests {
    use crate::document::Document;
    use crate::index::Index;
    use crate::learning::Reliability;

    use super::*;

    fn found(query: &Query<'_>) -> Ranking {
        let names = ["read_mail", "read_page", "read_disk", "read_file"];
        let document = |name: &&str| Document { name: (*name).to_owned(), ..Document::default() };
        Index::new(&names.iter().map(document).collect::<Vec<_>>()).search(query, None)
    }

    fn order(ranking: &Ranking) -> Vec<usize> {
        ranking.hits.iter().map(|hit| hit.document).collect()
    }

    #[test]
    fn the_first_hits_are_ordered_and_the_others_stay_behind() {
        let query = Query { text: "read", explain: true, ..Query::default() };
        let mut ranking = found(&query);
        assert_eq!(order(&ranking), [0, 1, 2, 3]);
        rerank(&mut ranking, &[0.2, 0.2, 0.7], &query);
        assert_eq!(order(&ranking), [2, 0, 1, 3], "ties keep their order");
        let scores: Vec<_> = ranking.hits.iter().map(|hit| hit.score).collect();
        assert!(scores.is_sorted_by(|one, other| one >= other), "{scores:?}");
        let explained = ranking.hits.iter().map(|hit| hit.explanation.as_ref().unwrap().rerank_score);
        assert_eq!(explained.collect::<Vec<_>>(), [Some(0.7), Some(0.2), Some(0.2), None]);
    }

    #[test]
    fn experience_still_counts() {
        let fails = [(2, Reliability { calls: 50, success_rate: 0.0 })];
        let query = Query { text: "read", reliability: &fails, reliability_weight: 1.0, ..Query::default() };
        let mut ranking = found(&query);
        let place = order(&ranking).iter().position(|document| *document == 2).unwrap();
        let mut scores = [0.5; 4];
        scores[place] = 0.6;
        rerank(&mut ranking, &scores, &query);
        assert_eq!(order(&ranking).last(), Some(&2));
        let learned = [(1, 1.0)];
        let query = Query { text: "read", learned: &learned, learned_weight: 1.0, ..Query::default() };
        let mut ranking = found(&query);
        rerank(&mut ranking, &[0.5; 4], &query);
        assert_eq!(order(&ranking).first(), Some(&1));
        let query = Query { text: "read", promoted: &[3], ..Query::default() };
        let mut ranking = found(&query);
        rerank(&mut ranking, &[0.9, 0.8, 0.1, 0.7], &query);
        assert_eq!(order(&ranking).iter().position(|document| *document == 3), Some(2), "{ranking:?}");
        assert!(ranking.hits.is_sorted_by(|one, other| one.score >= other.score), "{ranking:?}");
    }

    #[test]
    fn more_scores_than_hits_and_no_scores_change_nothing_else() {
        let query = Query { text: "read", ..Query::default() };
        let mut ranking = found(&query);
        rerank(&mut ranking, &[], &query);
        assert_eq!(order(&ranking), [0, 1, 2, 3]);
        rerank(&mut ranking, &[0.1, f32::NAN, 0.3, 0.4, 0.9], &query);
        assert_eq!(order(&ranking), [3, 2, 0, 1]);
    }
}
