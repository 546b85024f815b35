//! [`Learned`]: the pairs of queries and tools, searched by a linear scan.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use crate::vectors::{dot, normalized};

/// Nearest pairs that decide about the confidence in a query.
const CONFIDENCE_PAIRS: usize = 10;
/// Confidence of a pair at which its bonus is whole: that of one use after a search.
pub(super) const FULL_CONFIDENCE: f64 = 1.5;
/// Share of [`Pruning::threshold`] that stays when there are more pairs.
const KEPT_SHARE: f64 = 0.9;

/// A query, and a tool that was used for it.
#[derive(Clone, Debug)]
pub struct LearnedPair<T> {
    /// Identity of query and tool: the same pair replaces itself.
    pub id: String,
    /// The embedding model; vectors of different models say nothing about each other.
    pub model: Arc<str>,
    /// Embedding of the query.
    pub vector: Arc<[f32]>,
    /// The tool.
    pub tool: T,
    /// The principal who used it; only this principal's searches read the pair. `None`: all searches do.
    pub owner: Option<Arc<str>>,
    /// Confidence, by [`confidence_after`](super::confidence_after).
    pub confidence: f64,
    /// Time of the last use, in milliseconds.
    pub last_used: i64,
    /// True unless a search had found the tool first each time: only then does the pair change a search.
    pub corrects: bool,
}

/// A query to be compared with those of the pairs.
#[derive(Clone, Copy, Debug)]
pub struct AskedQuery<'a> {
    /// The embedding model.
    pub model: &'a str,
    /// Embedding of the query.
    pub vector: &'a [f32],
    /// The principal who asks; pairs of other principals say nothing.
    pub owner: Option<&'a str>,
}

/// Bounds on the pairs that are kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pruning {
    /// Most pairs; of more, nine tenths of this number stay, the best ones of each owner.
    pub threshold: usize,
    /// Confidence below which a pair goes.
    pub min_confidence: f64,
    /// Milliseconds without a use after which a pair goes.
    pub unused_ms: i64,
}

/// All learned pairs. A clone shares them.
#[derive(Clone, Debug)]
pub struct Learned<T>(BTreeMap<String, Arc<LearnedPair<T>>>);

impl<T> Default for Learned<T> {
    fn default() -> Self {
        Learned(BTreeMap::new())
    }
}

impl<T: Clone + Eq + Hash> Learned<T> {
    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if nothing was learned.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a pair.
    pub fn get(&self, id: &str) -> Option<&Arc<LearnedPair<T>>> {
        self.0.get(id)
    }

    /// All pairs, ordered by their ids.
    pub fn all(&self) -> impl Iterator<Item = &Arc<LearnedPair<T>>> {
        self.0.values()
    }

    /// Adds a pair, or replaces the one with its id. The vector is brought to unit length; a pair whose
    /// vector has no direction is refused.
    pub fn upsert(&mut self, pair: LearnedPair<T>) -> bool {
        let Some(unit) = normalized(&pair.vector, pair.vector.len()) else { return false };
        self.0.insert(pair.id.clone(), Arc::new(LearnedPair { vector: unit.into(), ..pair }));
        true
    }

    /// Removes a pair.
    pub fn remove(&mut self, id: &str) -> bool {
        self.0.remove(id).is_some()
    }

    /// Removes all pairs.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the pairs nearest to a query, with their cosines, best first; ties in the order of the ids.
    pub fn nearest(&self, asked: &AskedQuery<'_>, limit: usize) -> Vec<(f32, &Arc<LearnedPair<T>>)> {
        let Some(query) = normalized(asked.vector, asked.vector.len()) else { return Vec::new() };
        let fits = |pair: &&Arc<LearnedPair<T>>| {
            let is_own = pair.owner.as_deref().is_none_or(|owner| Some(owner) == asked.owner);
            is_own && *pair.model == *asked.model && pair.vector.len() == query.len()
        };
        let mut near: Vec<_> =
            self.0.values().filter(fits).map(|pair| (dot(&pair.vector, &query), pair)).collect();
        near.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        near.truncate(limit);
        near
    }

    /// Returns how well a query is known, 0 to 1: the mean similarity of the nearest pairs times their number
    /// out of ten. Pairs below `min_similarity` count for neither, so that a new subject stays unknown,
    /// however much was learned about others.
    pub fn confidence(&self, asked: &AskedQuery<'_>, min_similarity: f32) -> f32 {
        let near = self.nearest(asked, CONFIDENCE_PAIRS);
        let near: Vec<f32> =
            near.into_iter().map(|(cosine, _)| cosine).filter(|cosine| *cosine >= min_similarity).collect();
        // Mean times density: the number of pairs cancels out.
        near.iter().sum::<f32>() / CONFIDENCE_PAIRS as f32
    }

    /// Removes the pairs that are out of bounds, and returns their ids. Of too many pairs, each owner keeps
    /// the same number of its best ones (max-min fairness): an owner with few loses none to one with many.
    pub fn prune(&mut self, bounds: Pruning, now: i64) -> Vec<String> {
        let before: HashSet<String> = self.0.keys().cloned().collect();
        self.0.retain(|_, pair| {
            pair.confidence >= bounds.min_confidence && now.saturating_sub(pair.last_used) <= bounds.unused_ms
        });
        if self.len() > bounds.threshold {
            let kept = (bounds.threshold as f64 * KEPT_SHARE) as usize;
            for pair in self.by_turn().into_iter().skip(kept) {
                self.0.remove(&pair.id);
            }
        }
        before.into_iter().filter(|id| !self.0.contains_key(id)).collect()
    }

    /// Returns all pairs in turns (round robin): the best pair of each owner, then the second of each, and so
    /// on; within a turn, the best first. Clients without an identity are one owner.
    fn by_turn(&self) -> Vec<Arc<LearnedPair<T>>> {
        let mut best: Vec<_> = self.0.values().cloned().collect();
        best.sort_by(|one, other| {
            other.confidence.total_cmp(&one.confidence).then(other.last_used.cmp(&one.last_used))
        });
        let mut turns: HashMap<Option<Arc<str>>, usize> = HashMap::new();
        let mut by_turn = Vec::with_capacity(best.len());
        for pair in best {
            let turn = turns.entry(pair.owner.clone()).or_default();
            *turn += 1;
            by_turn.push((*turn, pair));
        }
        // The sort is stable, so the best stay first within a turn.
        by_turn.sort_by_key(|(turn, _)| *turn);
        by_turn.into_iter().map(|(_, pair)| pair).collect()
    }
}

#[cfg(test)]
mod tests;
