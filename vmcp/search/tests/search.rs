//! The behavior of a search as its callers rely on it.

use vmcp_search::{Clause, Document, Index, Query, Ranking, Reliability, SearchMode, Vectors, Visible};

fn tool(name: &str, description: &str) -> Document {
    Document { name: name.into(), description: description.into(), ..Document::default() }
}

/// FX-MOCK4: five tools in four dimensions, and a query nearest to `db_query`.
const MOCK_QUERY: [f32; 4] = [0.0, 0.05, 0.0, 0.95];

fn mock_documents() -> Vec<Document> {
    ["file_read", "file_write", "web_search", "db_query", "echo"].map(|name| tool(name, "")).to_vec()
}

fn mock_rows() -> Vec<Option<Vec<f32>>> {
    let rows = [
        [0.9, 0.1, 0.0, 0.0],
        [0.8, 0.2, 0.0, 0.0],
        [0.0, 0.0, 0.9, 0.1],
        [0.0, 0.1, 0.0, 0.9],
        [0.1, 0.1, 0.1, 0.1],
    ];
    rows.iter().map(|row| Some(row.to_vec())).collect()
}

fn mock_index() -> Index {
    Index::new(&mock_documents()).with_vectors(Vectors::from_rows(4, mock_rows()))
}

fn found(index: &Index, query: &Query<'_>) -> Vec<usize> {
    index.search(query, None).hits.iter().map(|hit| hit.document).collect()
}

#[test]
fn ratio_one_is_cosine_order() {
    let query = Query {
        text: "file",
        vector: Some(&MOCK_QUERY),
        semantic_ratio: 1.0,
        explain: true,
        ..Query::default()
    };
    let ranking = mock_index().search(&query, None);
    assert_eq!(ranking.mode, SearchMode::Semantic);
    let cosines: Vec<f32> = ranking.hits.iter().filter_map(|hit| hit.explanation?.cosine).collect();
    let order: Vec<usize> = ranking.hits.iter().map(|hit| hit.document).collect();
    assert_eq!(order, [3, 4, 2, 1, 0]);
    assert_eq!(cosines.len(), order.len(), "each hit explains its cosine");
    for (cosine, expected) in cosines.iter().zip([0.9983, 0.5256, 0.1103, 0.0127, 0.0058]) {
        assert!((cosine - expected).abs() < 5e-5, "{cosines:?}");
    }
    let ranks: Vec<_> = ranking.hits.iter().filter_map(|hit| hit.explanation?.cosine_rank).collect();
    assert_eq!(ranks, [1, 2, 3, 4, 5]);
}

#[test]
fn ratio_zero_is_keyword_order_and_finds_only_matches() {
    let query =
        Query { text: "file read", vector: Some(&MOCK_QUERY), semantic_ratio: 0.0, ..Query::default() };
    let index = mock_index();
    assert_eq!(index.search(&query, None).mode, SearchMode::Keyword);
    assert_eq!(found(&index, &query), [0, 1]);
    assert_eq!(found(&index, &Query { vector: None, ..query.clone() }), [0, 1]);
}

#[test]
fn both_arms_reach_one_answer() {
    let query =
        Query { text: "write", vector: Some(&MOCK_QUERY), limit: 2, explain: true, ..Query::default() };
    let ranking = mock_index().search(&query, None);
    assert_eq!(ranking.mode, SearchMode::Hybrid);
    // Five tools: min-max. db_query has cosine scale 1 and no keyword: .6. file_write: .4 and .6 · (.0127 −
    // .0058) / .9925.
    let fused: Vec<(usize, f32)> =
        ranking.hits.iter().filter_map(|hit| Some((hit.document, hit.explanation?.fused))).collect();
    assert_eq!(fused[0], (3, 0.6));
    assert_eq!(fused[1].0, 1);
    assert!((fused[1].1 - 0.4042).abs() < 1e-3, "{fused:?}");
}

#[test]
fn without_vectors_the_keywords_answer_and_say_so() {
    let index = Index::new(&mock_documents());
    let query = Query { text: "search", vector: Some(&MOCK_QUERY), ..Query::default() };
    let ranking = index.search(&query, None);
    assert_eq!((ranking.mode, ranking.without_vector, ranking.keyword_matches), (SearchMode::Keyword, 5, 1));
    assert_eq!(ranking.hits[0].document, 2);

    let ranking = index.search(&Query { text: "zebra", ..query }, None);
    assert!(ranking.hits.is_empty() && ranking.keyword_matches == 0);
    assert_eq!(ranking.terms[0].documents, 0);
}

#[test]
fn an_unfit_query_vector_is_no_vector() {
    for vector in [&[1.0, 2.0][..], &[f32::NAN; 4], &[0.0; 4], &[f32::INFINITY; 4], &[]] {
        let query = Query { text: "echo", vector: Some(vector), ..Query::default() };
        let ranking = mock_index().search(&query, None);
        assert_eq!((ranking.mode, ranking.hits.len()), (SearchMode::Keyword, 1), "{vector:?}");
    }
}

#[test]
fn a_tool_not_embedded_yet_is_found_by_its_words() {
    let mut rows = mock_rows();
    rows[3] = None;
    let index = Index::new(&mock_documents()).with_vectors(Vectors::from_rows(4, rows));
    let query = Query { text: "query", vector: Some(&MOCK_QUERY), ..Query::default() };
    let ranking = index.search(&query, None);
    assert_eq!((ranking.mode, ranking.without_vector), (SearchMode::Hybrid, 1));
    let order: Vec<usize> = ranking.hits.iter().map(|hit| hit.document).collect();
    // Four of five have vectors: db_query .52 · 1 + .48 · mean of the others; echo .48 · 1.
    assert_eq!(order[..2], [3, 4]);
    assert_eq!(order.len(), 5);
}

#[test]
fn tools_with_vectors_do_not_bury_a_better_one_without() {
    // The first of 64 tools has every word of the query and lacks a vector. Others have one word or none,
    // and a few of the embedded ones are near in meaning.
    let name = |at: usize| match at {
        0 => "rename remote branch".to_owned(),
        at if at % 8 == 1 => format!("branch office {at}"),
        at => format!("unrelated thing {at}"),
    };
    let documents: Vec<_> = (0..64).map(|at| tool(&name(at), "")).collect();
    let row =
        |at: usize| (at >= 48).then(|| vec![if at % 8 == 1 { 0.9 } else { 0.1 + at as f32 / 640.0 }, 1.0]);
    let index = Index::new(&documents).with_vectors(Vectors::from_rows(2, (0..64).map(row)));
    let query = Query { text: "rename remote branch", vector: Some(&[1.0, 0.0]), ..Query::default() };
    let ranking = index.search(&query, None);
    assert_eq!((ranking.mode, ranking.without_vector), (SearchMode::Hybrid, 48));
    assert_eq!(ranking.hits.first().map(|hit| hit.document), Some(0));
}

#[test]
fn the_distance_threshold_filters_what_only_the_vectors_found() {
    let query = Query { text: "read", vector: Some(&MOCK_QUERY), ..Query::default() };
    let index = mock_index();
    assert_eq!(found(&index, &query).len(), 5);
    // Only db_query is within .4; file_read (distance .994) is a keyword hit.
    let near = Query { distance_threshold: Some(0.4), ..query.clone() };
    let mut documents = found(&index, &near);
    documents.sort_unstable();
    assert_eq!(documents, [0, 3]);
    assert_eq!(found(&index, &Query { semantic_ratio: 1.0, ..near }), [3]);
    assert_eq!(found(&index, &Query { distance_threshold: Some(2.0), ..query }).len(), 5);
}

#[test]
fn clauses_lift_what_the_whole_query_blurs() {
    let query =
        Query { text: "write a file, search", semantic_ratio: 0.0, explain: true, ..Query::default() };
    let clauses = ["write a file", "search"].map(|text| Clause { text, vector: None, short_vector: None });
    let index = mock_index();
    let fused = |query: &Query<'_>, document: usize| {
        let ranking = index.search(query, None);
        ranking.hits.iter().find(|hit| hit.document == document).and_then(|hit| hit.explanation).unwrap()
    };
    let (without, with) = (fused(&query, 2), fused(&Query { clauses: &clauses, ..query.clone() }, 2));
    assert_eq!(with.best_clause, Some((1, 1.0)));
    assert!((with.fused - (0.7 * without.fused + 0.3)).abs() < 1e-6);
    let one = Query { clauses: &clauses[..1], ..query.clone() };
    assert_eq!(fused(&one, 2), without, "a single clause changes nothing");
}

#[test]
fn ties_are_in_document_order() {
    let index = Index::new(&vec![tool("same", "same"); 40]);
    let query = Query { text: "same", limit: 3, ..Query::default() };
    assert_eq!(found(&index, &query), [0, 1, 2]);
}

#[test]
fn only_visible_tools_are_found() {
    let index = mock_index();
    let query = Query { text: "file", vector: Some(&MOCK_QUERY), ..Query::default() };
    let visible: Visible = [1, 4, 99].into_iter().collect();
    let ranking = index.search(&query, Some(&visible));
    assert_eq!(ranking.visible, 2);
    let mut documents: Vec<usize> = ranking.hits.iter().map(|hit| hit.document).collect();
    documents.sort_unstable();
    assert_eq!(documents, [1, 4]);
    assert!(index.search(&query, Some(&Visible::default())).hits.is_empty());
}

#[test]
fn chinese_queries_find_chinese_tools() {
    let index = Index::new(&[
        tool("bing_search", "使用必应搜索指定的关键词"),
        tool("get_weather", "查询城市的天气预报"),
    ]);
    assert_eq!(found(&index, &Query { text: "明天的天气", ..Query::default() }), [1]);
}

#[test]
fn new_vectors_share_the_text_and_leave_the_old_index_alone() {
    let index = Index::new(&mock_documents());
    let with = index.with_vectors(Vectors::from_rows(4, mock_rows()));
    assert_eq!((index.vectors().count(), with.vectors().count(), with.len()), (0, 5, 5));
    assert_eq!(with.vectors().dims(), 4);
}

#[test]
fn of_two_tools_that_fit_equally_the_one_that_works_comes_first() {
    // The set is small (10) or large (40); the first two fit equally, the third far better than the rest.
    for others in [7, 37] {
        let mut tools = vec![tool("read_page", "Reads a page"), tool("read_page", "Reads a page")];
        tools.extend((0..others).map(|number| tool(&format!("other{number}"), "Unrelated work with a page")));
        let index = Index::new(&tools);
        let search = |reliability: &[(usize, Reliability)], explain| {
            index.search(&Query { text: "read a page", reliability, explain, ..Query::default() }, None)
        };
        let order = |ranking: &Ranking| ranking.hits.iter().map(|hit| hit.document).collect::<Vec<_>>();
        assert_eq!(order(&search(&[], false))[..2], [0, 1]);
        let failing = [(0, Reliability { calls: 20, success_rate: 0.1 })];
        let ranking = search(&failing, true);
        assert_eq!(order(&ranking)[..2], [1, 0], "second, and still ahead of all that fit worse");
        let explanation = ranking.hits[1].explanation.unwrap();
        assert_eq!(explanation.reliability.unwrap().calls, 20);
        assert!(explanation.reliability_penalty > 0.0);
        assert_eq!(ranking.hits[0].explanation.unwrap().reliability, None);
        let fresh = [(0, Reliability { calls: 2, success_rate: 0.0 })];
        assert_eq!(order(&search(&fresh, false))[..2], [0, 1], "few calls say nothing");
    }
}

#[test]
fn a_tool_that_was_used_for_such_queries_comes_earlier() {
    for others in [7, 37] {
        let mut tools = vec![tool("read_page", "Reads a page"), tool("read_page", "Reads a page")];
        tools.extend((0..others).map(|number| tool(&format!("other{number}"), "Unrelated work with a page")));
        let index = Index::new(&tools);
        let query = |learned| Query { text: "read a page", learned, explain: true, ..Query::default() };
        let ranking = index.search(&query(&[(1, 0.5), (5, 1.0)]), None);
        assert_eq!(ranking.hits[0].document, 1, "of two that fit equally, the one that was used");
        assert_eq!(ranking.hits[1].document, 0, "a bonus is bounded: the text goes before what was learned");
        assert!(ranking.hits[0].explanation.unwrap().learned_bonus > 0.0);
        let without = Query { learned_weight: 0.0, ..query(&[(1, 1.0)]) };
        assert_eq!(index.search(&without, None).hits[0].document, 0);
    }
}
