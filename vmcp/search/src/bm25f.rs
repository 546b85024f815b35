//! The keyword arm: BM25F over five fields of a tool.
//!
//! Per term `t` and document `d`, with `f` over the fields:
//!
//! ```text
//! tf(t, d)    = Σ_f  weight_f · count_f(t, d) / (1 − b_f + b_f · length_f(d) / mean length_f)
//! score(q, d) = Σ_t∈q  ln(1 + (N − n_t + ½) / (n_t + ½)) · tf(t, d) / (k1 + tf(t, d))
//! ```
//!
//! `N`, `n_t` and the mean lengths are taken over the *visible* documents, so that what a caller may not see
//! cannot influence, and so not be inferred from, what they get.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::mem;
use std::ops::Range;

use rust_stemmers::Stemmer;

use crate::document::Document;
use crate::query::QueryTerm;
use crate::text::analysis::{content_words, stem, stemmer, terms};
use crate::text::spelling::{may_be_a_slip, slips};
use crate::text::thesaurus::Expansion;
use crate::text::{MAX_SHORT_TERMS, is_stop_word};
use crate::visible::Visible;

// Term frequency saturation, the usual value.
const K1: f32 = 1.2;

/// Weight of a word that the thesaurus gives for everyday words, against the text's own terms.
const EVERYDAY_WEIGHT: f32 = 0.5;

/// Weight of the parts of a word that no document has, against the text's own terms.
const GLUED_WEIGHT: f32 = 0.8;
/// Fewest letters of each part.
const MIN_GLUED_PART: usize = 3;

/// Number of fields: name, server, description, parameter names, parameter descriptions.
const FIELDS: usize = 5;
/// Number of the first of them that name a tool: its name and its server.
const NAMING_FIELDS: usize = 2;
/// Weights of the fields and their length normalization `b`, as measured on the development sets of the
/// reference.
const WEIGHTS: [f32; FIELDS] = [3.0, 1.0, 1.0, 0.5, 0.25];
const LENGTH_NORMALIZATION: [f32; FIELDS] = [0.3, 0.3, 0.6, 0.6, 0.6];

/// An inverted index: the postings of all terms in one array, the postings of one term side by side in
/// document order.
pub(crate) struct Bm25f {
    terms: HashMap<String, Term>,
    postings: Vec<Posting>,
    lengths: Vec<[u32; FIELDS]>,
    /// By document: the number of terms of its name that its server does not have. Resolved names may begin
    /// with the server.
    own_name_lengths: Vec<u32>,
}

/// A term of the index.
struct Term {
    /// Its range of the postings.
    postings: Range<usize>,
    /// Its shortest word in the documents; `None`: the term itself.
    word: Option<Box<str>>,
}

/// The frequency of one term in one document, by field.
struct Posting {
    document: usize,
    counts: [u16; FIELDS],
}

impl Posting {
    fn is_in_a_name(&self) -> bool {
        self.counts.iter().take(NAMING_FIELDS).any(|count| *count > 0)
    }

    /// Returns how often the term occurs in the name; 0 for a term of the server.
    fn own_name_count(&self) -> u32 {
        let [name, server, ..] = self.counts;
        if server == 0 { u32::from(name) } else { 0 }
    }
}

/// The keyword arm's scores for one text.
pub(crate) struct Matches {
    /// BM25F by document number; 0 for a document that shares no term or is not visible.
    pub(crate) scores: Vec<f32>,
    /// The text's distinct terms.
    pub(crate) terms: Vec<QueryTerm>,
}

impl Bm25f {
    pub(crate) fn new(documents: &[Document]) -> Bm25f {
        let mut vocabulary = Vocabulary::new();
        let mut by_term: Vec<Vec<Posting>> = Vec::new();
        let mut lengths = Vec::with_capacity(documents.len());
        let mut own_name_lengths = Vec::with_capacity(documents.len());
        for (number, document) in documents.iter().enumerate() {
            let mut length = [0_u32; FIELDS];
            let mut terms_of_name = Vec::new();
            for ((field, text), length) in fields(document).iter().enumerate().zip(&mut length) {
                for term in content_words(text).map(|word| vocabulary.term(word)) {
                    *length += 1;
                    by_term.resize_with(by_term.len().max(term + 1), Vec::new);
                    if let Some(postings) = by_term.get_mut(term) {
                        count(postings, number, field);
                    }
                    if field == 0 {
                        terms_of_name.push(term);
                    }
                }
            }
            lengths.push(length);
            // A term that the name repeats counts once: its posting has the number.
            terms_of_name.sort_unstable();
            terms_of_name.dedup();
            let own = terms_of_name.into_iter().filter_map(|term| by_term.get(term)?.last());
            own_name_lengths.push(own.map(Posting::own_name_count).sum::<u32>());
        }
        let mut postings = Vec::with_capacity(by_term.iter().map(Vec::len).sum());
        let mut ranges = Vec::with_capacity(by_term.len());
        for of_term in by_term {
            let start = postings.len();
            postings.extend(of_term);
            ranges.push(start..postings.len());
        }
        let mut words = vocabulary.shortest_words();
        let known = |(term, number): (String, usize)| {
            let postings = ranges.get(number).cloned().unwrap_or_default();
            let word = words.get_mut(number).map(mem::take).filter(|word| **word != *term);
            (term, Term { postings, word })
        };
        let terms = vocabulary.terms.into_iter().map(known).collect();
        Bm25f { terms, postings, lengths, own_name_lengths }
    }

    /// Returns each field's length normalization over the visible documents: `(1 − b, b / mean length)`.
    pub(crate) fn norms(&self, visible: &[usize]) -> Norms {
        let mut totals = [0_u64; FIELDS];
        for lengths in visible.iter().filter_map(|document| self.lengths.get(*document)) {
            for (total, length) in totals.iter_mut().zip(lengths) {
                *total += u64::from(*length);
            }
        }
        let mut by_field = [(0.0, 0.0); FIELDS];
        for ((norm, total), b) in by_field.iter_mut().zip(totals).zip(LENGTH_NORMALIZATION) {
            *norm = (1.0 - b, b * visible.len() as f32 / (total as f32).max(1.0));
        }
        Norms { documents: visible.len(), by_field }
    }

    /// Scores the visible documents. A term that the text repeats counts once. The words of its expansion
    /// count apart from its terms, and everyday words count less than these.
    pub(crate) fn search(
        &self,
        text: &str,
        expansion: &Expansion,
        norms: &Norms,
        visible: Option<&Visible>,
    ) -> Matches {
        let mut scores = vec![0.0; self.lengths.len()];
        let mut found: Vec<QueryTerm> = Vec::new();
        let mut seen = HashSet::new();
        let stemmer = stemmer();
        let mut unknown = Vec::new();
        for word in content_words(text) {
            let term = stem(&stemmer, word.clone());
            if !seen.insert(term.clone()) {
                continue;
            }
            let documents = self.add_scores(&term, 1.0, norms, visible, &mut scores);
            if documents == 0 && may_be_a_slip(&word, &term) {
                unknown.push(word);
            }
            found.push(QueryTerm { term, documents });
        }
        // A longer text has other words, and its unknown ones are rather names and compounds ("homestay").
        if found.len() > MAX_SHORT_TERMS {
            unknown.clear();
        }
        let glued = unknown.iter().filter_map(|word| self.glued(word, visible)).flatten();
        for term in glued.filter(|term| seen.insert(term.clone())) {
            self.add_scores(&term, GLUED_WEIGHT, norms, visible, &mut scores);
        }
        let weight = if expansion.is_translation { 1.0 } else { EVERYDAY_WEIGHT };
        let added = expansion.words.iter().map(|word| stem(&stemmer, (*word).to_owned()));
        for term in added.filter(|term| seen.insert(term.clone())) {
            self.add_scores(&term, weight, norms, visible, &mut scores);
        }
        Matches { scores, terms: found }
    }

    /// Returns the two terms that an unknown word was put together from, such as `createissue`; of several
    /// pairs, the pair whose rarer term is in most visible documents.
    fn glued(&self, word: &str, visible: Option<&Visible>) -> Option<[String; 2]> {
        if word.len() < 2 * MIN_GLUED_PART {
            return None;
        }
        let stemmer = stemmer();
        let part = |part: &str| {
            let is_word = part.len() >= MIN_GLUED_PART && !is_stop_word(part);
            let term = is_word.then(|| stem(&stemmer, part.to_owned()))?;
            let documents = self.documents(&term, visible);
            (documents > 0).then_some((documents, term))
        };
        let pair = |at: usize| {
            let (first, second) = word.split_at_checked(at)?;
            let ((one, first), (other, second)) = (part(first)?, part(second)?);
            Some((one.min(other), [first, second]))
        };
        (0..word.len()).filter_map(pair).max().map(|(_, terms)| terms)
    }

    /// Returns the number of visible documents that have a term.
    fn documents(&self, term: &str, visible: Option<&Visible>) -> usize {
        let is_visible =
            |posting: &&Posting| visible.is_none_or(|visible| visible.contains(posting.document));
        self.postings_of(term).iter().filter(is_visible).count()
    }

    /// Adds the scores of terms that neither the text nor its expansion has, each by its weight.
    pub(crate) fn add(
        &self,
        terms: &[(String, f32)],
        norms: &Norms,
        visible: Option<&Visible>,
        matches: &mut Matches,
    ) {
        for (term, weight) in terms {
            self.add_scores(term, *weight, norms, visible, &mut matches.scores);
        }
    }

    /// Adds the scores of one term, weighted; returns the number of visible documents that have it.
    fn add_scores(
        &self,
        term: &str,
        weight: f32,
        norms: &Norms,
        visible: Option<&Visible>,
        scores: &mut [f32],
    ) -> usize {
        let is_visible =
            |posting: &&Posting| visible.is_none_or(|visible| visible.contains(posting.document));
        let postings = self.postings_of(term);
        let documents = postings.iter().filter(is_visible).count();
        let idf = (1.0 + (norms.documents as f32 - documents as f32 + 0.5) / (documents as f32 + 0.5)).ln();
        for posting in postings.iter().filter(is_visible) {
            let lengths = self.lengths.get(posting.document);
            if let (Some(lengths), Some(score)) = (lengths, scores.get_mut(posting.document)) {
                let frequency = norms.frequency(posting, lengths);
                *score += weight * idf * frequency / (K1 + frequency);
            }
        }
        documents
    }

    /// True if a visible document has this term.
    pub(crate) fn has(&self, term: &str, visible: Option<&Visible>) -> bool {
        let is_visible = |posting: &Posting| visible.is_none_or(|visible| visible.contains(posting.document));
        self.postings_of(term).iter().any(is_visible)
    }

    /// Returns the term that a typed word is probably a slip of, as a word of the documents, with the number
    /// of slips: the nearest one, and of several the one in most visible documents.
    pub(crate) fn near(&self, typed: &str, visible: Option<&Visible>) -> Option<(usize, &str)> {
        let stem = stem(&stemmer(), typed.to_owned());
        let near = self.terms.iter().filter_map(|(term, known)| {
            let word = known.word.as_deref().unwrap_or(term);
            let slips = slips(typed, typed, word).into_iter().chain(slips(typed, &stem, term)).min()?;
            let documents = self.documents(term, visible);
            (documents > 0).then_some((slips, Reverse(documents), word))
        });
        near.min().map(|(slips, _, word)| (slips, word))
    }

    /// True if a visible document has all of these terms in its name or its server: they name it.
    pub(crate) fn names_one(&self, terms: &[QueryTerm], visible: Option<&Visible>) -> bool {
        let Some((first, others)) = terms.split_first() else { return false };
        let is_named =
            |term: &QueryTerm, document: usize| self.naming_posting(&term.term, document).is_some();
        self.postings_of(&first.term)
            .iter()
            .filter(|posting| posting.is_in_a_name())
            .map(|posting| posting.document)
            .filter(|document| visible.is_none_or(|visible| visible.contains(*document)))
            .any(|document| others.iter().all(|term| is_named(term, document)))
    }

    /// True if a text is the whole name of a visible document, alone or with its server's.
    pub(crate) fn is_a_name(&self, text: &str, visible: Option<&Visible>) -> bool {
        let distinct: HashSet<String> = terms(text).collect();
        let Some(first) = distinct.iter().next() else { return false };
        let in_name =
            |term: &String, document: usize| self.naming_posting(term, document).map(Posting::own_name_count);
        self.postings_of(first)
            .iter()
            .map(|posting| posting.document)
            .filter(|document| visible.is_none_or(|visible| visible.contains(*document)))
            .any(|document| {
                let found: Option<u32> = distinct.iter().map(|term| in_name(term, document)).sum();
                found.is_some() && found == self.own_name_lengths.get(document).copied()
            })
    }

    /// Returns the posting of a term for a document, if its name or its server has the term.
    fn naming_posting(&self, term: &str, document: usize) -> Option<&Posting> {
        let postings = self.postings_of(term);
        let at = postings.binary_search_by_key(&document, |posting| posting.document).ok()?;
        postings.get(at).filter(|posting| posting.is_in_a_name())
    }

    /// The postings of a term, in document order.
    fn postings_of(&self, term: &str) -> &[Posting] {
        self.terms.get(term).and_then(|known| self.postings.get(known.postings.clone())).unwrap_or_default()
    }
}

/// Length normalization over the visible documents, made by [`Bm25f::norms`].
pub(crate) struct Norms {
    documents: usize,
    by_field: [(f32, f32); FIELDS],
}

impl Norms {
    fn frequency(&self, posting: &Posting, lengths: &[u32; FIELDS]) -> f32 {
        let fields = posting.counts.iter().zip(lengths).zip(WEIGHTS).zip(&self.by_field);
        fields
            .map(|(((count, length), weight), (base, slope))| {
                weight * f32::from(*count) / (base + slope * *length as f32)
            })
            .sum()
    }
}

/// Numbers terms in the order of their appearance and memoizes the stem of each word: stemming costs much
/// more than a look-up, and the words of a collection repeat.
struct Vocabulary {
    stemmer: Stemmer,
    words: HashMap<String, usize>,
    terms: HashMap<String, usize>,
}

impl Vocabulary {
    fn new() -> Vocabulary {
        Vocabulary { stemmer: stemmer(), words: HashMap::new(), terms: HashMap::new() }
    }

    /// Returns the shortest word of each term, by number; of several, the first in alphabetical order.
    fn shortest_words(&mut self) -> Vec<Box<str>> {
        let mut shortest: Vec<Option<String>> = vec![None; self.terms.len()];
        for (word, number) in self.words.drain() {
            let Some(best) = shortest.get_mut(number) else { continue };
            let is_better = |best: &String| (word.len(), &word) < (best.len(), best);
            if best.as_ref().is_none_or(is_better) {
                *best = Some(word);
            }
        }
        shortest.into_iter().map(|word| word.unwrap_or_default().into_boxed_str()).collect()
    }

    fn term(&mut self, word: String) -> usize {
        if let Some(term) = self.words.get(&word) {
            return *term;
        }
        let next = self.terms.len();
        let term = *self.terms.entry(stem(&self.stemmer, word.clone())).or_insert(next);
        self.words.insert(word, term);
        term
    }
}

/// The texts of the fields, in the order of [`WEIGHTS`].
fn fields(document: &Document) -> [Cow<'_, str>; FIELDS] {
    let Document { server, name, description, parameters } = document;
    let (names, descriptions): (Vec<&str>, Vec<&str>) =
        parameters.iter().map(|(name, description)| (name.as_str(), description.as_str())).unzip();
    [name.into(), server.into(), description.into(), names.join(" ").into(), descriptions.join(" ").into()]
}

fn count(postings: &mut Vec<Posting>, document: usize, field: usize) {
    if postings.last().is_none_or(|last| last.document != document) {
        postings.push(Posting { document, counts: [0; FIELDS] });
    }
    if let Some(count) = postings.last_mut().and_then(|posting| posting.counts.get_mut(field)) {
        *count = count.saturating_add(1);
    }
}

#[cfg(test)]
mod tests;
