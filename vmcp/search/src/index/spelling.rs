//! Corrects slips in a query: words that neither a visible tool nor the tables of people's words have.

use super::Index;
use crate::text::analysis::{compounds, stem, stemmer};
use crate::text::spelling::{english_words_near, may_be_a_slip};
use crate::text::thesaurus;
use crate::visible::Visible;

/// Unknown words of a query that are compared with the vocabulary; further ones stay.
const MAX_UNKNOWN_WORDS: usize = 6;

impl Index {
    /// Returns a query with its slips corrected: a word that is unknown, and near to a word of a visible tool
    /// or to one of the tables, becomes this word. Names stay, and so do queries in other languages. `None`
    /// if nothing changes.
    ///
    /// ```
    /// use vmcp_search::{Document, Index};
    ///
    /// let tool = |name: &str| Document { name: name.into(), ..Document::default() };
    /// let index = Index::new(&[tool("create_issue"), tool("list_calendars")]);
    /// assert_eq!(index.corrected("creat an isue", None).as_deref(), Some("creat an issue"));
    /// assert_eq!(index.corrected("create an issue", None), None);
    /// ```
    pub fn corrected(&self, text: &str, visible: Option<&Visible>) -> Option<String> {
        let stemmer = stemmer();
        let is_known = |word: &str| {
            let word = word.to_lowercase();
            let term = stem(&stemmer, word.clone());
            self.keywords().has(&term, visible) || !may_be_a_slip(&word, &term)
        };
        let mut corrected = String::new();
        let (mut from, mut copied, mut unknown, mut is_first) = (0, 0, 0, true);
        for (compound, parts) in compounds(text) {
            let is_whole = |word: String| self.keywords().has(&stem(&stemmer, word), visible);
            // A product in camel case is one word of its definitions: `PostgreSQL`. A capital letter within a
            // text begins a name.
            let is_name = match parts.len() {
                1 => !is_first && compound.starts_with(char::is_uppercase),
                _ => is_whole(compound.to_lowercase()),
            };
            is_first = false;
            for part in parts {
                // Between two words are neither letters nor digits, so that the next occurrence is this one.
                let Some(at) = text.get(from..).and_then(|rest| rest.find(part)) else { continue };
                let start = from + at;
                from = start + part.len();
                if is_name || is_known(part) || unknown == MAX_UNKNOWN_WORDS {
                    continue;
                }
                unknown += 1;
                if let Some(meant) = self.meant(&part.to_lowercase(), visible) {
                    corrected.push_str(text.get(copied..start).unwrap_or_default());
                    push_in_case(&mut corrected, part, &meant);
                    copied = from;
                }
            }
        }
        if corrected.is_empty() || thesaurus::expand(text).is_translation {
            return None;
        }
        corrected.push_str(text.get(copied..).unwrap_or_default());
        Some(corrected)
    }

    /// Returns the word that was probably meant by an unknown one; words of tools come first.
    fn meant(&self, typed: &str, visible: Option<&Visible>) -> Option<String> {
        let of_tools = self.keywords().near(typed, visible);
        let of_people = english_words_near(typed).min();
        match (of_tools, of_people) {
            (Some((slips, word)), Some((fewer, other))) => Some(if fewer < slips { other } else { word }),
            (Some((_, word)), None) => Some(word),
            (None, other) => other.map(|(_, word)| word),
        }
        .map(str::to_owned)
    }
}

/// Adds a word that begins with a capital letter if another one does, so that it still begins a part of its
/// compound.
fn push_in_case(text: &mut String, typed: &str, word: &str) {
    let mut letters = word.chars();
    if typed.starts_with(char::is_uppercase) {
        text.extend(letters.next().into_iter().flat_map(char::to_uppercase));
    }
    text.push_str(letters.as_str());
}

#[cfg(test)]
mod tests {
    use crate::document::Document;

    use super::*;

    fn index() -> Index {
        let names = ["create_issue", "list_calendar_events", "sendMessage", "query_PostgreSQL", "openQuasar"];
        let tool = |name: &str| Document { name: name.to_owned(), ..Document::default() };
        Index::new(&names.map(tool))
    }

    #[test]
    fn slips_become_words_of_tools_and_of_people() {
        for (query, expected) in [
            ("creat an isue", "creat an issue"),
            ("calender evnts?", "calendar events?"),
            ("Mesage to Bob, pleese", "Message to Bob, please"),
            ("creatIsue", "creatIssue"),
            ("send_mesage", "send_message"),
            ("isue tissue isue", "issue tissue issue"),
            ("what is the wetaher", "what is the weather"),
        ] {
            assert_eq!(index().corrected(query, None).as_deref(), Some(expected), "{query}");
        }
    }

    #[test]
    fn known_words_names_and_other_languages_stay() {
        for query in [
            "",
            "create an issue",
            "events of the calendar",
            "buy dice in Bostin",
            "PostgreSQL",
            "wie wird das wetter morgen im kalendar",
            "明天天气",
            "a1b2c3d4 k8s",
        ] {
            assert_eq!(index().corrected(query, None), None, "{query}");
        }
    }

    #[test]
    fn a_hidden_tool_has_no_words() {
        let visible: Visible = [0, 1].into_iter().collect();
        assert_eq!(index().corrected("open quasra", None).as_deref(), Some("open quasar"));
        assert_eq!(index().corrected("open quasra", Some(&visible)), None);
    }

    #[test]
    fn the_work_for_one_query_is_bounded() {
        let query = "isue ".repeat(100);
        let corrected = index().corrected(&query, None).unwrap();
        assert_eq!(corrected.matches("issue").count(), MAX_UNKNOWN_WORDS);
        assert_eq!(corrected.len(), query.len() + MAX_UNKNOWN_WORDS);
    }
}
