use proptest::{prop_assert_eq, proptest};

use super::*;

fn split(identifier: &str) -> String {
    split_identifier(identifier).join(" ")
}

fn joined_terms(text: &str) -> String {
    terms(text).collect::<Vec<_>>().join(" ")
}

#[test]
fn identifiers_split_where_their_writers_meant_it() {
    for (identifier, expected) in [
        ("get_weather-report.v2", "get weather report v2"),
        ("createPullRequest", "create Pull Request"),
        ("HTTPServerError", "HTTP Server Error"),
        ("listURLs", "list URLs"),
        ("getIDsByName", "get IDs By Name"),
        ("sha256", "sha256"),
        ("base64Encode", "base64 Encode"),
        ("k8s_apply", "k8s apply"),
        ("i18n", "i18n"),
        ("md2pdf", "md 2 pdf"),
        ("get3DModel", "get3 D Model"),
        ("PDF", "PDF"),
        ("__a__b", "a b"),
        ("搜索GitHub仓库", "搜索 Git Hub 仓库"),
        ("ÉcoleÉtat", "École État"),
        ("", ""),
        ("-._", ""),
    ] {
        assert_eq!(split(identifier), expected, "{identifier}");
    }
}

#[test]
fn terms_are_stemmed_lower_case_content() {
    assert_eq!(joined_terms("Listing the Repositories of a user"), "list repositori user");
    assert_eq!(joined_terms("list_issues"), "list issu");
    assert_eq!(joined_terms("the user's IDs"), "user id");
}

#[test]
fn a_camel_case_compound_is_found_by_its_whole_too() {
    assert_eq!(joined_terms("GitHub"), "git hub github");
    assert_eq!(joined_terms("github"), "github");
    assert_eq!(joined_terms("git_hub"), "git hub");
}

#[test]
fn stop_words_stay_when_there_is_nothing_else() {
    assert_eq!(joined_terms("who_am_i"), "who am i");
    assert_eq!(joined_terms("who is using the server"), "server");
}

#[test]
fn operators_of_query_languages_are_only_characters() {
    assert_eq!(joined_terms("foo\" OR NEAR( *"), "foo near");
    assert_eq!(joined_terms("\"list data issues\""), "list data issu");
    assert_eq!(joined_terms("\u{0}\u{202e}^:-*"), "");
}

#[test]
fn unspaced_scripts_give_pairs() {
    assert_eq!(joined_terms("搜索关键词"), "搜索 索关 关键 键词");
    assert_eq!(joined_terms("图"), "图");
    assert_eq!(joined_terms("查询 weather 天气"), "查询 weather 天气");
}

#[test]
fn only_english_words_are_stemmed() {
    assert_eq!(joined_terms("naïveness Übungen"), "naïveness übungen");
    let key = "ay".repeat(1 << 20);
    assert_eq!(joined_terms(&key), key);
}

/// Returns what `words` returns, with no quick path.
fn words_by_characters(text: &str) -> Vec<String> {
    let stretches = text.split(|character: char| !character.is_alphanumeric());
    let runs = stretches
        .flat_map(|stretch| cut(stretch, |_, before, after| is_unspaced(before) != is_unspaced(after)));
    let mut words = Vec::new();
    for run in runs {
        if run.starts_with(is_unspaced) {
            words.extend(pairs(run));
            continue;
        }
        let parts = split_run(run);
        words.extend(parts.iter().map(|part| part.to_lowercase()));
        if parts.len() > 1 {
            words.push(run.to_lowercase());
        }
    }
    words
}

proptest! {
    #[test]
    fn quick_paths_change_no_word(text in "[a-zA-Z0-9_ .éßİ中あ-]{0,40}") {
        prop_assert_eq!(words(&text), words_by_characters(&text));
    }
}
