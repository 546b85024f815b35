use super::*;

fn document(server: &str, name: &str, description: &str, parameters: &[(&str, &str)]) -> Document {
    Document {
        server: server.into(),
        name: name.into(),
        description: description.into(),
        parameters: parameters.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect(),
    }
}

fn scores(documents: &[Document], query: &str, visible: Option<&Visible>) -> Vec<f32> {
    let index = Bm25f::new(documents);
    let numbers: Vec<usize> = (0..documents.len())
        .filter(|number| visible.is_none_or(|visible| visible.contains(*number)))
        .collect();
    index.search(query, &Expansion::default(), &index.norms(&numbers), visible).scores
}

fn close(left: f32, right: f32) -> bool {
    (left - right).abs() < 1e-5
}

#[test]
fn the_score_is_the_hand_computed_one() {
    // Names have 2 and 1 words (mean 1.5), descriptions 3 and 1 (mean 2).
    let documents = [document("", "read_file", "mails file mails", &[]), document("", "mail", "send", &[])];
    let scores = scores(&documents, "mail", None);
    // "mail" is in both documents: idf = ln(1 + .5 / 2.5) = .1823216.
    // First: twice in the description, 1·2 / (1 − .6 + .6 · 3 / 2) = 1.5384615, / (1.2 + it) = .5617978.
    assert!(close(scores[0], 0.182_321_6 * 0.561_797_8), "{scores:?}");
    // Second: once in the name, 3·1 / (1 − .3 + .3 · 1 / 1.5) = 3.3333333, / (1.2 + it) = .7352941.
    assert!(close(scores[1], 0.182_321_6 * 0.735_294_1), "{scores:?}");
}

#[test]
fn fields_weigh_name_server_description_parameter_name_parameter_description() {
    let documents = [
        document("s", "n", "d", &[("p", "needle")]),
        document("s", "n", "d", &[("needle", "q")]),
        document("s", "n", "needle", &[("p", "q")]),
        document("needle", "n", "d", &[("p", "q")]),
        document("s", "needle", "d", &[("p", "q")]),
    ];
    // All field lengths equal their means, so frequencies are the weights.
    let idf = (1.0_f32 + 0.5 / 5.5).ln();
    let expected = [0.25, 0.5, 1.0, 1.0, 3.0].map(|weight: f32| idf * weight / (1.2 + weight));
    let scores = scores(&documents, "needle", None);
    assert_eq!(scores.len(), expected.len());
    assert!(scores.iter().zip(expected).all(|(left, right)| close(*left, right)), "{scores:?} {expected:?}");
}

#[test]
fn rare_terms_outweigh_common_ones_and_repetition_in_the_query_changes_nothing() {
    let documents = [
        document("", "list_issues", "", &[]),
        document("", "list_users", "", &[]),
        document("", "list_commits", "", &[]),
        document("", "close_issues", "", &[]),
    ];
    let once = scores(&documents, "list closed issue", None);
    assert!(once[3] > once[0] && once[0] > once[1] && close(once[1], once[2]));
    assert_eq!(once, scores(&documents, "list closed closed issue Issues", None));
}

#[test]
fn what_is_invisible_has_no_score_and_no_influence() {
    let mut documents = vec![
        document("", "read_file", "reads a file", &[]),
        document("", "send_mail", "sends a mail with a file", &[]),
    ];
    let alone = scores(&documents, "file mail", None);
    documents.push(document("", "file", "file file mail and a lot more that makes descriptions long", &[]));
    let visible = [0, 1].into_iter().collect();
    let filtered = scores(&documents, "file mail", Some(&visible));
    assert_eq!(filtered[..2], alone);
    assert!(close(filtered[2], 0.0));
}

#[test]
fn terms_tell_how_many_visible_documents_have_them() {
    let documents = [document("", "a_file", "", &[]), document("", "b_file", "", &[])];
    let index = Bm25f::new(&documents);
    let visible = [1].into_iter().collect();
    let terms =
        index.search("files, the zebra", &Expansion::default(), &index.norms(&[1]), Some(&visible)).terms;
    let term = |term: &str, documents| QueryTerm { term: term.into(), documents };
    assert_eq!(terms, [term("file", 1), term("zebra", 0)]);
}

#[test]
fn an_empty_index_answers() {
    assert!(scores(&[], "anything", None).is_empty());
}

#[test]
fn terms_name_a_visible_tool_by_its_name_and_its_server_alone() {
    let documents = [document("github", "create_issue", "files a ticket", &[("title", "its title")])];
    let index = Bm25f::new(&documents);
    let names_one = |text: &str, visible: Option<&Visible>| {
        let terms = index.search(text, &Expansion::default(), &index.norms(&[0]), visible).terms;
        index.names_one(&terms, visible)
    };
    for text in ["create issue", "issues", "creating github issue"] {
        assert!(names_one(text, None), "{text}");
    }
    for text in ["", "create ticket", "issue title", "create nothing"] {
        assert!(!names_one(text, None), "{text}");
    }
    assert!(!names_one("create issue", Some(&Visible::from_iter([]))), "what is hidden has no influence");
}

#[test]
fn words_of_an_expansion_count_half_and_are_no_terms_of_the_text() {
    let documents = ["delete_page", "list_pages"].map(|name| document("", name, "", &[]));
    let index = Bm25f::new(&documents);
    let found = |text: &str, words: Vec<&'static str>, is_translation: bool| {
        let expansion = Expansion { words, is_translation };
        index.search(text, &expansion, &index.norms(&[0, 1]), None)
    };
    let own = found("delete", Vec::new(), false).scores;
    let everyday = found("get rid", vec!["deletes"], false);
    assert!((everyday.scores[0] - own[0] / 2.0).abs() < 1e-6 && everyday.scores[1].abs() < f32::EPSILON);
    assert!(everyday.terms.iter().all(|term| term.term != "delet"), "{:?}", everyday.terms);
    let translated = found("lösche", vec!["delete"], true).scores;
    assert!((translated[0] - own[0]).abs() < 1e-6);
    // A word that the text has itself counts once.
    assert!((found("delete", vec!["delete"], false).scores[0] - own[0]).abs() < 1e-6);
}

#[test]
fn a_text_is_a_name_if_it_has_all_of_the_name_and_nothing_else() {
    let documents = [
        document("github", "github_create_issue", "opens a ticket", &[]),
        document("ci", "listRuns", "", &[]),
        document("draw", "draw", "", &[]),
    ];
    let index = Bm25f::new(&documents);
    for text in ["create_issue", "github_create_issue", "creating issues", "listRuns", "ci.listRuns", "draw"]
    {
        assert!(index.is_a_name(text, None), "{text}");
    }
    for text in ["", "issue", "github", "create_issue ticket", "create_issue ci", "create a label"] {
        assert!(!index.is_a_name(text, None), "{text}");
    }
    assert!(
        !index.is_a_name("create_issue", Some(&Visible::from_iter([1]))),
        "a hidden one has no influence"
    );
}

#[test]
fn a_word_that_no_document_has_is_searched_by_its_parts() {
    let names = ["create_issue", "send_mail", "sendmail_status"];
    let documents = names.map(|name| document("", name, "", &[]));
    let found = |query: &str, visible: Option<&Visible>| -> Vec<usize> {
        let scores = scores(&documents, query, visible).into_iter().enumerate();
        scores.filter(|(_, score)| *score > 0.0).map(|(number, _)| number).collect()
    };
    assert_eq!(found("createissue", None), [0]);
    assert_eq!(found("issuemails", None), [0, 1]);
    assert_eq!(found("sendmail", None), [2], "a word of a document is not cut");
    for query in ["xcreateissue", "createissuex", "theissue", "创建问题"] {
        assert_eq!(found(query, None), [0; 0], "{query}");
    }
    let visible: Visible = [1, 2].into_iter().collect();
    assert_eq!(found("createissue", Some(&visible)), [0; 0], "hidden tools have no parts");
    let long = "wall door roof room attic cellar createissue";
    assert_eq!(found(long, None), [0; 0], "a longer text has other words");
    let whole = document("", "create_issue", "", &[]);
    let (whole, cut) =
        (scores(std::slice::from_ref(&whole), "create issue", None), scores(&[whole], "createissue", None));
    assert!(cut[0] > 0.0 && cut[0] < whole[0], "{cut:?} {whole:?}");
}
