//! Ranking of short texts: their second vector, that of "tool to …" before the text, and their words in a
//! thesaurus.

use vmcp_search::{Clause, Document, Index, Query, SMALL_SET, Vectors};

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

/// The names of the tools that words alone find.
fn found_by_words(text: &str, clauses: &[Clause<'_>]) -> Vec<&'static str> {
    let names = ["delete_page", "refund_payment", "forecast", "move_page"];
    let tool = |name: &str| Document { name: name.into(), ..Document::default() };
    let index = Index::new(&names.map(tool));
    let hits = index.search(&Query { text, clauses, ..Query::default() }, None).hits;
    hits.iter().filter_map(|hit| names.get(hit.document).copied()).collect()
}

#[test]
fn everyday_words_and_other_languages_find_tools_by_the_words_of_definitions() {
    assert_eq!(found_by_words("get rid of it", &[]), ["delete_page"]);
    assert_eq!(found_by_words("she wants her money back", &[]), ["refund_payment"]);
    assert_eq!(found_by_words("wie wird das Wetter morgen", &[]), ["forecast"]);
    assert_eq!(found_by_words("明天天气怎么样", &[]), ["forecast"]);
    // A text's own words come first.
    assert_eq!(found_by_words("move it, get rid of it", &[]), ["move_page", "delete_page"]);
}

#[test]
fn the_clauses_of_a_longer_text_are_not_expanded() {
    let text = "move the page to archived projects of last winter season, then get rid of it";
    let clause = |text| Clause { text, vector: None, short_vector: None };
    let clauses = [clause("move the page to archived projects"), clause("get rid of it")];
    assert!(found_by_words(text, &clauses).first() == Some(&"move_page"));
    let alone = found_by_words("move archived projects of last winter season quickly, get rid of it", &[]);
    assert_eq!(alone, ["move_page"]);
}

#[test]
fn the_exact_name_of_a_tool_stays_first_though_it_has_everyday_words() {
    let names = [
        "get_row",
        "get_range_cell",
        "draw",
        "generate_image_drawing",
        "ci_status",
        "workflow_run_job_status",
    ];
    // The words of the names that are asked for occur in many descriptions.
    let many = |at: usize| Document {
        name: format!("other_{at}"),
        description: "row draw ci".to_owned(),
        ..Document::default()
    };
    let document = |name: &&str| Document { name: (*name).to_owned(), ..Document::default() };
    let documents: Vec<_> = names.iter().map(document).chain((0..40).map(many)).collect();
    let index = Index::new(&documents);
    for name in ["get_row", "draw", "ci_status"] {
        let hits = index.search(&Query { text: name, ..Query::default() }, None).hits;
        let first = hits.first().and_then(|hit| documents.get(hit.document));
        assert_eq!(first.map(|document| document.name.as_str()), Some(name));
    }
}
