use super::*;

fn split(identifier: &str) -> String {
    split_identifier(identifier).join(" ")
}

fn terms(text: &str) -> String {
    Analyzer::default().terms(text).join(" ")
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
    assert_eq!(terms("Listing the Repositories of a user"), "list repositori user");
    assert_eq!(terms("list_issues"), "list issu");
    assert_eq!(terms("the user's IDs"), "user id");
}

#[test]
fn a_camel_case_compound_is_found_by_its_whole_too() {
    assert_eq!(terms("GitHub"), "git hub github");
    assert_eq!(terms("github"), "github");
    assert_eq!(terms("git_hub"), "git hub");
}

#[test]
fn stop_words_stay_when_there_is_nothing_else() {
    assert_eq!(terms("who_am_i"), "who am i");
    assert_eq!(terms("who is using the server"), "server");
}

#[test]
fn operators_of_query_languages_are_only_characters() {
    assert_eq!(terms("foo\" OR NEAR( *"), "foo near");
    assert_eq!(terms("\"list data issues\""), "list data issu");
    assert_eq!(terms("\u{0}\u{202e}^:-*"), "");
}

#[test]
fn unspaced_scripts_give_pairs() {
    assert_eq!(terms("搜索关键词"), "搜索 索关 关键 键词");
    assert_eq!(terms("图"), "图");
    assert_eq!(terms("查询 weather 天气"), "查询 weather 天气");
}
