//! Ranking of short texts, whose query has a second vector: that of "tool to …" before the text.

use vmcp_search::{Document, Index, Query, SMALL_SET, Vectors};

/// The tools nearest to the text, to its second form, and to both together.
const BY_TEXT: usize = 3;
const BY_FORM: usize = 5;
const BY_BOTH: usize = 7;

fn index(count: usize) -> Index {
    let tool = |number: usize| Document { name: format!("tool {number}"), ..Document::default() };
    let row = |number: usize| match number {
        BY_TEXT => vec![1.0, 0.0, 0.0],
        BY_FORM => vec![0.0, 1.0, 0.0],
        BY_BOTH => vec![0.8, 0.6, 0.0],
        other => vec![0.0, 0.0, 1.0 + other as f32],
    };
    let documents: Vec<_> = (0..count).map(tool).collect();
    Index::new(&documents).with_vectors(Vectors::from_rows(3, (0..count).map(|number| Some(row(number)))))
}

fn query(short_vector: Option<&[f32]>) -> Query<'_> {
    Query {
        text: "whatever",
        vector: Some(&[1.0, 0.0, 0.0]),
        short_vector,
        explain: true,
        ..Query::default()
    }
}

fn first(count: usize, short_vector: Option<&[f32]>) -> usize {
    index(count).search(&query(short_vector), None).hits.first().map_or(usize::MAX, |hit| hit.document)
}

#[test]
fn both_forms_of_a_short_text_are_compared() {
    assert_eq!(first(SMALL_SET, Some(&[0.0, 1.0, 0.0])), BY_BOTH);
    assert_eq!(first(SMALL_SET, None), BY_TEXT);
    assert_eq!(first(SMALL_SET, Some(&[0.0, 1.0])), BY_TEXT, "a vector of another width is none");
    assert_eq!(first(SMALL_SET - 1, Some(&[0.0, 1.0, 0.0])), BY_TEXT, "a small set has another scale");
}

#[test]
fn the_cosine_of_an_explanation_stays_that_of_the_text_itself() {
    let ranking = index(SMALL_SET).search(&query(Some(&[0.0, 1.0, 0.0])), None);
    let cosine = |document: usize| {
        let hit = ranking.hits.iter().find(|hit| hit.document == document).unwrap();
        hit.explanation.unwrap().cosine.unwrap()
    };
    assert!((cosine(BY_TEXT) - 1.0).abs() < 1e-6 && (cosine(BY_BOTH) - 0.8).abs() < 1e-6);
}
