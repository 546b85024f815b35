//! Words of a text, and the forms in which a keyword may appear.

/// Endings that a keyword may have.
const ENDINGS: [&str; 7] = ["s", "es", "d", "ed", "ing", "er", "ers"];
/// Names that look like the key of an issue: `UTF-8`, `SHA-256`, `ISO-8601`, `COVID-19`.
const NO_PROJECTS: [&str; 4] = ["UTF", "SHA", "ISO", "COVID"];

/// Returns the words of a text in lower case; an apostrophe ends a word.
pub(super) fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// True if the words of a keyword follow each other, each in any of its forms.
pub(super) fn has_phrase(words: &[String], keyword: &str) -> bool {
    let keyword: Vec<&str> = keyword.split_whitespace().collect();
    let is = |window: &[String]| window.iter().zip(&keyword).all(|(word, keyword)| is_form(word, keyword));
    !keyword.is_empty() && words.windows(keyword.len()).any(is)
}

/// True if a word is a keyword, or a simple inflection of it.
fn is_form(word: &str, keyword: &str) -> bool {
    let ending = word.strip_prefix(keyword);
    if ending.is_some_and(|ending| ending.is_empty() || ENDINGS.contains(&ending)) {
        return true;
    }
    // story: stories; write: writing.
    let stem = |last: char, ending: &str| {
        keyword.strip_suffix(last).is_some_and(|stem| word.strip_prefix(stem) == Some(ending))
    };
    stem('y', "ies") || stem('e', "ing")
}

/// True if a text names an issue: capitals and digits, a hyphen, digits.
pub(super) fn has_issue_key(text: &str) -> bool {
    let token = |c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_');
    text.split(token).any(|token| {
        let Some((project, number)) = token.split_once('-') else { return false };
        let rest = project.strip_prefix(|c: char| c.is_ascii_uppercase()).unwrap_or_default();
        !rest.is_empty()
            && rest.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
            && !number.is_empty()
            && number.chars().all(|c| c.is_ascii_digit())
            && !NO_PROJECTS.contains(&project)
    })
}
