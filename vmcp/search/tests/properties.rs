//! Properties of every search, whatever is indexed and asked.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use vmcp_search::{Clause, Document, Index, Query, Ranking, Vectors, Visible, split_clauses, vector_text};

const DIMS: usize = 3;

/// Few words, so that they meet; and anything at all.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => vec(prop::sample::select(vec!["list", "fileReader", "get_mail", "the", "搜索", "HTTP2", "and", ","]), 0..8)
            .prop_map(|words| words.join(" ")),
        1 => any::<String>(),
    ]
}

fn document() -> impl Strategy<Value = Document> {
    (text(), text(), text(), vec((text(), text()), 0..3)).prop_map(
        |(server, name, description, parameters)| Document { server, name, description, parameters },
    )
}

fn row() -> impl Strategy<Value = Option<Vec<f32>>> {
    option::weighted(0.8, prop_oneof![9 => vec(-1.0_f32..1.0, DIMS), 1 => vec(any::<f32>(), 0..5)])
}

/// Documents with their vectors and who may see them.
fn collection() -> impl Strategy<Value = Vec<(Document, Option<Vec<f32>>, bool)>> {
    vec((document(), row(), any::<bool>()), 0..50)
}

#[derive(Clone, Debug)]
struct RandomQuery {
    text: String,
    vector: Option<Vec<f32>>,
    clauses: Vec<(String, Option<Vec<f32>>)>,
    limit: usize,
    semantic_ratio: f32,
    distance_threshold: Option<f32>,
}

fn asked() -> impl Strategy<Value = RandomQuery> {
    let ratio = prop_oneof![Just(0.0), Just(1.0), Just(0.6), any::<f32>()];
    let threshold = option::of(prop_oneof![0.0_f32..2.0, any::<f32>()]);
    (text(), row(), vec((text(), row()), 0..4), 0_usize..60, ratio, threshold).prop_map(
        |(text, vector, clauses, limit, semantic_ratio, distance_threshold)| RandomQuery {
            text,
            vector,
            clauses,
            limit,
            semantic_ratio,
            distance_threshold,
        },
    )
}

fn index<'a>(tools: impl Iterator<Item = (&'a Document, &'a Option<Vec<f32>>)>) -> Index {
    let (documents, rows): (Vec<_>, Vec<_>) =
        tools.map(|(document, row)| (document.clone(), row.clone())).unzip();
    Index::new(&documents).with_vectors(Vectors::from_rows(DIMS, rows))
}

fn search(index: &Index, asked: &RandomQuery, visible: Option<&Visible>) -> Ranking {
    let clauses: Vec<Clause<'_>> = asked
        .clauses
        .iter()
        .map(|(text, vector)| Clause { text, vector: vector.as_deref(), short_vector: None })
        .collect();
    let query = Query {
        text: &asked.text,
        vector: asked.vector.as_deref(),
        clauses: &clauses,
        limit: asked.limit,
        semantic_ratio: asked.semantic_ratio,
        distance_threshold: asked.distance_threshold,
        explain: true,
        ..Query::default()
    };
    index.search(&query, visible)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn hits_are_visible_distinct_within_the_limit_and_scored_in_order(tools in collection(), asked in asked()) {
        let index = index(tools.iter().map(|(document, row, _)| (document, row)));
        let visible: Visible = (0..tools.len()).filter(|tool| tools[*tool].2).collect();
        let ranking = search(&index, &asked, Some(&visible));
        prop_assert!(ranking.hits.len() <= asked.limit);
        prop_assert_eq!(ranking.visible, visible.len());
        prop_assert!(ranking.hits.iter().all(|hit| visible.contains(hit.document)));
        prop_assert!(ranking.hits.iter().all(|hit| (0.0..=1.0).contains(&hit.score)));
        prop_assert!(ranking.hits.is_sorted_by(|before, after| before.score >= after.score));
        let distinct: Visible = ranking.hits.iter().map(|hit| hit.document).collect();
        prop_assert_eq!(distinct.len(), ranking.hits.len());
    }

    #[test]
    fn what_is_invisible_changes_nothing(tools in collection(), asked in asked()) {
        let all = index(tools.iter().map(|(document, row, _)| (document, row)));
        let seen: Vec<usize> = (0..tools.len()).filter(|tool| tools[*tool].2).collect();
        let alone = index(seen.iter().map(|tool| (&tools[*tool].0, &tools[*tool].1)));
        let filtered = search(&all, &asked, Some(&seen.iter().copied().collect()));
        let mut expected = search(&alone, &asked, None);
        for hit in &mut expected.hits {
            hit.document = seen[hit.document];
        }
        prop_assert_eq!(filtered.hits, expected.hits);
        prop_assert_eq!(filtered.terms, expected.terms);
        prop_assert_eq!(filtered.mode, expected.mode);
    }

    #[test]
    fn a_larger_limit_only_adds_hits(tools in collection(), asked in asked()) {
        let index = index(tools.iter().map(|(document, row, _)| (document, row)));
        let few = search(&index, &asked, None).hits;
        let all = search(&index, &RandomQuery { limit: usize::MAX, ..asked }, None).hits;
        prop_assert_eq!(&few[..], &all[..few.len()]);
    }

    #[test]
    fn clauses_keep_the_content_of_the_query_within_bounds(query in text()) {
        let clauses = split_clauses(&query);
        prop_assert!(clauses.len() != 1 && clauses.len() <= vmcp_search::MAX_CLAUSES);
        let words = |text: &str| -> Vec<String> {
            text.split(|character: char| !character.is_alphanumeric()).map(str::to_owned).collect()
        };
        let known = words(&query);
        prop_assert!(clauses.iter().flat_map(|clause| words(clause)).all(|word| known.contains(&word)));
    }

    #[test]
    fn any_tool_has_a_text_on_one_line(document in document()) {
        let text = vector_text(&document);
        prop_assert!(!text.contains('\n') || document.server.contains('\n'));
    }
}

#[test]
fn a_huge_query_is_answered() {
    let index = Index::new(&[Document { name: "list_files".into(), ..Document::default() }]);
    let words: Vec<String> = (0..50_000).map(|number| format!("word{number} list")).collect();
    let text = words.join(" ");
    let ranking = index.search(&Query { text: &text, ..Query::default() }, None);
    assert_eq!(ranking.hits.len(), 1);
    let unbroken = "aB1".repeat(100_000);
    assert!(index.search(&Query { text: &unbroken, ..Query::default() }, None).hits.is_empty());
}
