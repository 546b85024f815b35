//! The search index, and the path of one query through it: gather evidence, fuse, filter, rank.

mod indexed_texts;
mod prior;
mod rerank;
mod spelling;

use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, LazyLock};

use crate::bm25f::Bm25f;
use crate::document::Document;
use crate::evidence::Evidence;
use crate::fusion;
use crate::learning::{self, Reliability};
use crate::query::{Clause, DEFAULT_SEMANTIC_RATIO, Explanation, Hit, Query, Ranking, SearchMode};
use crate::text::analysis::{stem, stemmer, terms};
use crate::text::paraphrases::{Paraphrase, paraphrase};
use crate::text::thesaurus::{self, Expansion};
use crate::text::{MAX_CLAUSES, MAX_SHORT_TERMS, short_query};
use crate::vectors::Vectors;
use crate::visible::Visible;
use indexed_texts::IndexedTexts;
use prior::ShortQuery;
pub use rerank::rerank;

/// All tools of a process, searchable. Immutable and cheap to clone; every caller shares it.
///
/// ```
/// use vmcp_search::{Document, Index, Query, SearchMode, Vectors, Visible};
///
/// let tool = |name: &str| Document { name: name.into(), ..Document::default() };
/// let index = Index::new(&[tool("read_file"), tool("read_mail"), tool("add_user")]);
/// let visible: Visible = [0, 2].into_iter().collect();
/// let ranking = index.search(&Query { text: "read", ..Query::default() }, Some(&visible));
/// assert_eq!(ranking.hits.len(), 1, "a document that is not visible is not found");
///
/// // With vectors, both arms decide.
/// let rows = [[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]].map(|row| Some(row.to_vec()));
/// let index = index.with_vectors(Vectors::from_rows(2, rows));
/// let query = Query { text: "read", vector: Some(&[0.0, 1.0]), ..Query::default() };
/// assert_eq!(index.search(&query, None).mode, SearchMode::Hybrid);
/// ```
#[derive(Clone)]
pub struct Index {
    texts: Arc<IndexedTexts>,
    vectors: Arc<Vectors>,
    /// Hash of the documents.
    documents: u64,
}

/// Keys of the hash: of this process, so that no backend can choose documents of the same hash.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

impl Index {
    /// Indexes the documents' text. A document's position is its number, and breaks ties.
    pub fn new(documents: &[Document]) -> Index {
        let (texts, documents) = (IndexedTexts::new(documents), HASHER.hash_one(documents));
        Index { texts: Arc::new(texts), vectors: Arc::default(), documents }
    }

    /// As [`Index::new`], but the text is indexed by [`Index::prepare`], or by the first search before it: a
    /// list of the tools need not wait for it.
    pub fn deferred(documents: Vec<Document>) -> Index {
        let hash = HASHER.hash_one(documents.as_slice());
        Index { texts: Arc::new(IndexedTexts::deferred(documents)), vectors: Arc::default(), documents: hash }
    }

    /// Indexes the text of a deferred index; returns at once if that is done.
    pub fn prepare(&self) {
        self.texts.built();
    }

    /// True once the text is indexed, so that a search takes no longer than usual.
    pub fn is_prepared(&self) -> bool {
        self.texts.is_built()
    }

    fn keywords(&self) -> &Bm25f {
        &self.texts.built().keywords
    }

    /// Returns an index of these documents, with no vectors. It shares the text arm of this one if the
    /// documents are the same: a reload, or a listing as before, then costs their hash alone.
    #[must_use]
    pub fn renewed(&self, documents: &[Document]) -> Index {
        if documents.len() == self.len() && HASHER.hash_one(documents) == self.documents {
            return self.with_vectors(Vectors::default());
        }
        Index::new(documents)
    }

    /// Returns an index of the same text with these vectors, row by document number. All else is shared, not
    /// copied.
    #[must_use]
    pub fn with_vectors(&self, vectors: Vectors) -> Index {
        Index { vectors: Arc::new(vectors), ..self.clone() }
    }

    /// Number of documents.
    pub fn len(&self) -> usize {
        self.texts.count
    }

    /// True if the index has no documents.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The table of vectors.
    pub fn vectors(&self) -> &Vectors {
        &self.vectors
    }

    /// Ranks the visible documents for a query (`None`: all are visible). Never fails: missing or unfit input
    /// silences an arm, and [`Ranking::mode`] says which arms decided. A document that is not visible has no
    /// influence on the scores of others.
    pub fn search(&self, query: &Query<'_>, visible: Option<&Visible>) -> Ranking {
        let is_visible = |document: &usize| visible.is_none_or(|visible| visible.contains(*document));
        let documents: Vec<usize> = (0..self.len()).filter(is_visible).collect();
        let ratio = if query.semantic_ratio.is_nan() { DEFAULT_SEMANTIC_RATIO } else { query.semantic_ratio };
        let ratio = ratio.clamp(0.0, 1.0);

        let clauses = query.clauses.get(..query.clauses.len().min(MAX_CLAUSES)).unwrap_or_default();
        let clauses = if clauses.len() < 2 { &[] } else { clauses };
        let evidence = self.rank(query, clauses, ratio, &documents, visible);

        let mode = match ratio {
            _ if evidence.whole.cosine.iter().all(Option::is_none) => SearchMode::Keyword,
            0.0 => SearchMode::Keyword,
            1.0 => SearchMode::Semantic,
            _ => SearchMode::Hybrid,
        };
        Ranking {
            hits: evidence.hits(query, mode, &documents),
            mode,
            visible: documents.len(),
            without_vector: documents.iter().filter(|document| !self.vectors.has(**document)).count(),
            keyword_matches: (0..documents.len())
                .filter(|at| evidence.whole.keyword_match(*at).is_some())
                .count(),
            clauses: clauses.iter().map(|clause| clause.text.to_owned()).collect(),
            terms: evidence.whole.terms,
        }
    }

    /// Returns the visible documents whose vectors are nearest to a vector, with their cosines, best first;
    /// ties in document order. Documents without a vector are left out.
    pub fn nearest(&self, vector: &[f32], visible: Option<&Visible>, limit: usize) -> Vec<(usize, f32)> {
        let is_visible = |document: &usize| visible.is_none_or(|visible| visible.contains(*document));
        let documents: Vec<usize> = (0..self.len()).filter(is_visible).collect();
        let cosines = self.vectors.scan(&[self.vectors.query(vector)], &documents).pop().unwrap_or_default();
        let mut near: Vec<_> = documents
            .into_iter()
            .zip(cosines)
            .filter_map(|(document, cosine)| Some((document, cosine?)))
            .collect();
        near.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        near.truncate(limit);
        near
    }

    /// Gathers the evidence. The query and its clauses share one pass over the vectors; the own vector of a
    /// query that may have a paraphrase passes before, and once.
    fn rank(
        &self,
        query: &Query<'_>,
        clauses: &[Clause<'_>],
        ratio: f32,
        documents: &[usize],
        visible: Option<&Visible>,
    ) -> QueryEvidence {
        let whole = Clause { text: query.text, vector: query.vector, short_vector: query.short_vector };
        let texts = || std::iter::once(&whole).chain(clauses);
        let mut vectors: Vec<_> = texts().map(|text| self.vectors.query(text.vector?)).collect();
        let takes_short = documents.len() >= fusion::SMALL_SET;
        let mut expansion = thesaurus::expand(query.text);
        // The name of a tool asks for this tool: words of others would outweigh a frequent word of its name.
        if !expansion.words.is_empty() && self.keywords().is_a_name(query.text, visible) {
            expansion = Expansion::default();
        }
        let own = vectors.first().and_then(Option::as_deref);
        let own = own.filter(|_| takes_short && query.short_vector.is_some());
        // The query of a name, and of another language, has no paraphrase.
        let own =
            own.filter(|_| !expansion.is_translation && !self.keywords().is_a_name(query.text, visible));
        let scanned = own.and_then(|own| self.vectors.scan(&[Some(own.to_vec())], documents).pop());
        let paraphrase = own.zip(scanned.as_deref());
        let paraphrase =
            paraphrase.and_then(|(own, cosines)| paraphrase_of(query.text, own, &expansion, cosines));
        let short = texts().zip(&vectors).enumerate().map(|(at, (text, own))| {
            let own = own.as_deref().filter(|_| takes_short)?;
            let short = self.short_query(text, own, at == 0 && expansion.is_translation)?;
            Some(match &paraphrase {
                Some(paraphrase) if at == 0 => paraphrase.added_to(&short),
                _ => short,
            })
        });
        let short: Vec<_> = short.collect();
        let has_short: Vec<_> = short.iter().map(Option::is_some).collect();
        let mut has_short = has_short.into_iter();
        let texts_count = vectors.len();
        if let Some(own) = vectors.first_mut().filter(|_| scanned.is_some()) {
            *own = None;
        }
        vectors.extend(short.into_iter().flatten().map(Some));
        // A row for each vector: those of the texts, then those of the short texts among them.
        let mut cosines = self.vectors.scan(&vectors, documents);
        if let (Some(own), Some(scanned)) = (cosines.first_mut(), scanned) {
            *own = scanned;
        }
        let mut closeness = cosines.split_off(texts_count).into_iter();
        let mut cosines = cosines.into_iter();
        let norms = self.keywords().norms(documents);
        let mut weigh = |clause: &Clause<'_>, expansion: &Expansion, added: &[(String, f32)]| {
            let mut matches = self.keywords().search(clause.text, expansion, &norms, visible);
            self.keywords().add(added, &norms, visible, &mut matches);
            let bm25 = documents.iter().map(|document| matches.scores.get(*document).copied()).collect();
            let closeness = has_short.next().filter(|has| *has).and_then(|_| closeness.next());
            let ratio = fusion::cosine_weight(
                ratio,
                matches.terms.len(),
                documents.len(),
                closeness.is_some(),
                || self.keywords().names_one(&matches.terms, visible),
            );
            let cosine = cosines.next().unwrap_or_default();
            Evidence::new(matches.terms, cosine, closeness.as_deref(), bm25, ratio)
        };
        let added = paraphrase.as_ref().map(|paraphrase| paraphrase.terms.as_slice()).unwrap_or_default();
        let whole = weigh(&whole, &expansion, added);
        // A clause is a part of a longer text, which has words of definitions itself.
        let plain = Expansion::default();
        let clauses = clauses.iter().map(|clause| weigh(clause, &plain, &[])).collect();
        let prior = self.prior(query.text, &expansion, &whole, ratio, documents, visible);
        QueryEvidence { whole, clauses, prior }
    }

    /// Returns what each document gains beside words and meaning, by position; nothing for a long query, for
    /// the name of a tool, and in a small set, which has another scale.
    fn prior(
        &self,
        text: &str,
        expansion: &Expansion,
        whole: &Evidence,
        ratio: f32,
        documents: &[usize],
        visible: Option<&Visible>,
    ) -> Vec<f32> {
        let is_short = (1..=MAX_SHORT_TERMS).contains(&whole.terms.len());
        if !is_short || documents.len() < fusion::SMALL_SET || self.keywords().is_a_name(text, visible) {
            return Vec::new();
        }
        let weighs_servers = ratio > 0.0 && !self.keywords().names_one(&whole.terms, visible);
        let query = ShortQuery { text, expansion: &expansion.words, weighs_servers };
        self.texts.built().traits.gains(&query, whole, documents)
    }

    /// Returns the vector of a text, made of both of its forms; `own` is the text's own vector, normalized.
    fn short_query(&self, text: &Clause<'_>, own: &[f32], is_translation: bool) -> Option<Vec<f32>> {
        let form = self.vectors.query(text.short_vector?)?;
        Some(short_query(own, &form, is_translation))
    }
}

/// Returns the paraphrase of a query, from its own vector and the cosines of the tools.
fn paraphrase_of(
    text: &str,
    own: &[f32],
    expansion: &Expansion,
    cosines: &[Option<f32>],
) -> Option<Paraphrase> {
    let stemmer = stemmer();
    let expanded = expansion.words.iter().map(|word| stem(&stemmer, (*word).to_owned()));
    let known: HashSet<String> = terms(text).chain(expanded).collect();
    paraphrase(own, cosines, &known)
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index")
            .field("documents", &self.len())
            .field("vectors", &self.vectors.count())
            .finish_non_exhaustive()
    }
}

/// The evidence for the whole query and for its clauses.
struct QueryEvidence {
    whole: Evidence,
    clauses: Vec<Evidence>,
    /// Gain of each document beside both arms, by position; empty: none.
    prior: Vec<f32>,
}

impl QueryEvidence {
    /// The value that ranks the document at a position.
    fn fused(&self, position: usize) -> f32 {
        let whole = self.whole.fused.get(position).copied().unwrap_or_default();
        let fused =
            self.best_clause(position).map_or(whole, |(_, best)| fusion::with_best_clause(whole, best));
        fused + self.prior_of(position)
    }

    fn prior_of(&self, position: usize) -> f32 {
        self.prior.get(position).copied().unwrap_or_default()
    }

    fn best_clause(&self, position: usize) -> Option<(usize, f32)> {
        let values =
            self.clauses.iter().map(|clause| clause.fused.get(position).copied().unwrap_or_default());
        values.enumerate().max_by(|(_, left), (_, right)| left.total_cmp(right))
    }

    /// True if the document at a position may be a hit at all: keywords alone find only documents that share
    /// a term, and beyond the distance threshold only keywords find anything.
    fn qualifies(&self, position: usize, mode: SearchMode, threshold: Option<f32>) -> bool {
        let by_keyword = mode != SearchMode::Semantic && self.whole.keyword_match(position).is_some();
        let near = || match threshold.filter(|threshold| *threshold < 2.0) {
            None => true,
            Some(threshold) => {
                let cosine = self.whole.cosine.get(position).copied().flatten();
                cosine.is_some_and(|cosine| 1.0 - cosine <= threshold)
            }
        };
        by_keyword || (mode != SearchMode::Keyword && near())
    }

    fn hits(&self, query: &Query<'_>, mode: SearchMode, documents: &[usize]) -> Vec<Hit> {
        let penalty = |position: usize| penalty(query, documents, position);
        let gained = |position: usize| gained(query, documents, position);
        let mut ranked: Vec<(f32, usize)> = (0..documents.len())
            .filter(|position| {
                self.qualifies(*position, mode, query.distance_threshold)
                    || promotion(query, documents, *position).is_some()
            })
            .map(|position| (self.fused(position) - penalty(position).1 + gained(position), position))
            .collect();
        let by_value_then_position =
            |left: &(f32, usize), right: &(f32, usize)| right.0.total_cmp(&left.0).then(left.1.cmp(&right.1));
        if query.limit < ranked.len() && query.promoted.is_empty() {
            // Partial selection before the sort: linear in the documents, and only the hits are sorted.
            ranked.select_nth_unstable_by(query.limit, by_value_then_position);
            ranked.truncate(query.limit);
        }
        ranked.sort_unstable_by(by_value_then_position);
        learning::promote(&mut ranked, |(_, position)| promotion(query, documents, *position));
        // A promoted tool is worth as much as the tool that it displaces, so that scores stay in order.
        let mut least = f32::NEG_INFINITY;
        for (value, _) in ranked.iter_mut().rev() {
            *value = value.max(least);
            least = *value;
        }
        ranked.truncate(query.limit);
        let hit = |(fused, position): (f32, usize)| {
            let document = *documents.get(position)?;
            let explain = || {
                let (reliability, reliability_penalty) = penalty(position);
                let explanation = self.whole.explain(position, self.best_clause(position), fused);
                let learned_bonus = gained(position);
                let promoted = promotion(query, documents, position).is_some();
                let prior = self.prior_of(position);
                Explanation {
                    prior,
                    reliability,
                    reliability_penalty,
                    learned_bonus,
                    promoted,
                    ..explanation
                }
            };
            Some(Hit {
                document,
                score: fusion::score(fused, documents.len()),
                explanation: query.explain.then(explain),
            })
        };
        ranked.into_iter().filter_map(hit).collect()
    }
}

/// Returns the learned bonus of the document at a position.
fn gained(query: &Query<'_>, documents: &[usize], position: usize) -> f32 {
    let learned = query.learned;
    let of = |document: &usize| learned.binary_search_by_key(document, |(number, _)| *number).ok();
    let at = if learned.is_empty() { None } else { documents.get(position).and_then(of) };
    let strength = at.and_then(|at| learned.get(at)).map_or(0.0, |(_, strength)| *strength);
    learning::bonus(strength, query.learned_weight, documents.len())
}

/// Returns the place of the document at a position among the promoted ones.
fn promotion(query: &Query<'_>, documents: &[usize], position: usize) -> Option<usize> {
    let document = documents.get(position).filter(|_| !query.promoted.is_empty())?;
    query.promoted.iter().position(|promoted| promoted == document)
}

/// Returns the reliability of the document at a position, and the value that it loses by it.
fn penalty(query: &Query<'_>, documents: &[usize], position: usize) -> (Option<Reliability>, f32) {
    let known = query.reliability;
    let of = |document: &usize| known.binary_search_by_key(document, |(number, _)| *number).ok();
    let at = if known.is_empty() { None } else { documents.get(position).and_then(of) };
    let reliability = at.and_then(|at| known.get(at)).map(|(_, reliability)| *reliability);
    let penalty = |known: Reliability| known.penalty(query.reliability_weight, documents.len());
    (reliability, reliability.map_or(0.0, penalty))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::paraphrases::tests::vector_of;

    #[test]
    fn a_wish_is_searched_by_the_words_of_definitions() {
        let name = |at: usize| if at == 17 { "lock_door".to_owned() } else { format!("tool_{at}") };
        let documents = (0..fusion::SMALL_SET).map(|at| Document { name: name(at), ..Document::default() });
        let documents: Vec<_> = documents.collect();
        let wish = vector_of("lock up for the night");
        // All tools are equally far in meaning.
        let far = |at: usize| if at == 0 { 1.0 } else { 0.0 };
        let row: Vec<f32> = (0..wish.len()).map(far).collect();
        let rows = documents.iter().map(|_| Some(row.clone()));
        let index = Index::new(&documents).with_vectors(Vectors::from_rows(wish.len(), rows));
        let found = |text, short_vector: Option<&[f32]>| {
            let query = Query { text, vector: Some(wish.as_slice()), short_vector, ..Query::default() };
            index.search(&query, None).hits.first().map(|hit| hit.document)
        };
        assert_eq!(found("evening routine", Some(wish.as_slice())), Some(17));
        assert_eq!(found("evening routine", None), Some(0), "a text of another model or a long one");
        assert_eq!(found("tool 3", Some(wish.as_slice())), Some(3), "the name of a tool");
    }

    #[test]
    fn a_deferred_index_finds_what_another_finds() {
        let documents: Vec<_> = ["read_file", "read_mail", "add_user"]
            .map(|name| Document { name: name.to_owned(), ..Document::default() })
            .into();
        let found = |index: &Index| -> Vec<_> {
            let ranking = index.search(&Query { text: "read mail", ..Query::default() }, None);
            ranking.hits.iter().map(|hit| (hit.document, hit.score.to_bits())).collect()
        };
        let (usual, deferred) = (Index::new(&documents), Index::deferred(documents.clone()));
        assert!(usual.is_prepared() && !deferred.is_prepared());
        assert_eq!(deferred.len(), 3);
        let with_vectors = deferred.with_vectors(Vectors::default());
        assert_eq!(found(&deferred), found(&usual));
        assert!(with_vectors.is_prepared(), "the text is shared");
        assert!(Arc::ptr_eq(&deferred.renewed(&documents).texts, &deferred.texts));
        let prepared = Index::deferred(documents);
        prepared.prepare();
        assert!(prepared.is_prepared());
    }

    #[test]
    fn only_the_same_documents_share_the_text_arm() {
        let tool = |name: &str| Document { name: name.into(), ..Document::default() };
        let vectors = Vectors::from_rows(1, [Some(vec![1.0]), None]);
        let index = Index::new(&[tool("read"), tool("write")]).with_vectors(vectors);
        let same = index.renewed(&[tool("read"), tool("write")]);
        assert!(Arc::ptr_eq(&same.texts, &index.texts));
        assert_eq!(same.vectors().count(), 0);
        for documents in
            [vec![tool("read")], vec![tool("write"), tool("read")], vec![tool("read"), tool("writes")]]
        {
            let other = index.renewed(&documents);
            assert!(!Arc::ptr_eq(&other.texts, &index.texts));
            assert_eq!(other.len(), documents.len());
        }
    }
}
