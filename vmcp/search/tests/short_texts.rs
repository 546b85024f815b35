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

/// Forty tools of two servers: `a` reads and writes mail, `b` holds other things.
fn two_servers() -> (Vec<Document>, Index) {
    let tool = |server: &str, name: String| Document { server: server.into(), name, ..Document::default() };
    let mail = ["send_mail", "read_mail"].map(|name| tool("a", name.to_owned()));
    let others = (0..38).map(|number| tool(if number < 18 { "a" } else { "b" }, format!("thing_{number}")));
    let documents: Vec<_> = mail.into_iter().chain(others).collect();
    let index = Index::new(&documents);
    (documents, index)
}

#[test]
fn a_question_finds_the_tool_that_reads_and_a_command_the_one_that_changes() {
    let (documents, index) = two_servers();
    let first = |text: &str| {
        let hits = index.search(&Query { text, ..Query::default() }, None).hits;
        hits.first().and_then(|hit| documents.get(hit.document)).map(|document| document.name.as_str())
    };
    assert_eq!(first("did anybody send mail"), Some("send_mail"), "words go before effects");
    assert_eq!(first("any new mail?"), Some("read_mail"));
    assert_eq!(first("answer this mail"), Some("send_mail"));
    assert_eq!(first("mail"), Some("send_mail"), "ties are in document order");
    // A longer text has words of definitions itself.
    let long = "which mail about harvest, rockets, violins, gardens, bridges and candles came";
    assert_eq!(first(long), Some("send_mail"));
}

#[test]
fn the_gain_of_a_short_text_is_explained() {
    let (_, index) = two_servers();
    let query = Query { text: "any new mail?", explain: true, ..Query::default() };
    let prior_of = |document: usize| {
        let ranking = index.search(&query, None);
        let hit = ranking.hits.into_iter().find(|hit| hit.document == document).unwrap();
        hit.explanation.unwrap().prior
    };
    assert!((prior_of(1) - 0.5).abs() < 1e-6 && (prior_of(0) + 0.5).abs() < 1e-6);
}

#[test]
fn of_two_equal_tools_the_one_comes_first_whose_server_fits() {
    let (documents, index) = two_servers();
    // The last tool is of `b`, whose other tools are nearer to the text than those of `a`.
    let row = |number: usize| match (number, documents.get(number).map(|document| document.server.as_str())) {
        (5 | 39, _) => vec![1.0, 0.0],
        (_, Some("b")) => vec![0.6, 0.8],
        _ => vec![0.0, 1.0],
    };
    let index = index.with_vectors(Vectors::from_rows(2, (0..documents.len()).map(|at| Some(row(at)))));
    let found = |visible: Option<&vmcp_search::Visible>, ratio: f32| {
        let vector: &[f32] = &[1.0, 0.0];
        let query =
            Query { text: "whatever", vector: Some(vector), semantic_ratio: ratio, ..Query::default() };
        index.search(&query, visible).hits.first().map(|hit| hit.document)
    };
    assert_eq!(found(None, 0.6), Some(39));
    // Hidden tools say nothing about their server.
    let visible = (0..20).chain([39]).collect();
    let alone = found(Some(&visible), 0.6);
    assert_eq!(alone, Some(39), "a server of one near tool");
    let only_a = (0..20).collect();
    assert_eq!(found(Some(&only_a), 0.6), Some(5));
}
