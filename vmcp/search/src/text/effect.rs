//! Effects: a question wants a tool that reads, a command wants a tool that changes something.
//!
//! "Did anybody write me" and "write to the landlord" share their words; only the verbs tell `read_email`
//! from `send_email`. The effect of a tool is that of a verb in its name, else of the verb that its
//! description begins with. The effect that a query wants is that of its first word, else of its
//! [everyday words](super::thesaurus). Figures: `docs/contributor/search-quality.md`.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::analysis::{split_identifier, words};
use super::courtesy::request_of;
use super::sentence::first_sentence;

/// Words of a name among which its verb is looked for; names may begin with that of their server.
const NAME_WORDS: usize = 4;
/// Endings that a verb at the beginning of a description may have: "Lists", "Fetches", "Created", "Added".
const ENDINGS: [&str; 4] = ["s", "es", "d", "ed"];

/// Verbs of tools that read.
const READING_VERBS: &str = "\
    analyze browse check compare count describe display download explain export fetch find get inspect \
    list look lookup query read retrieve search see show summarize translate view watch";
/// Verbs of tools that change something.
const CHANGING_VERBS: &str = "\
    activate add adjust append approve archive arm assign attach authorize ban block build buy call \
    cancel change checkout clear click clone close commit complete compose configure connect control \
    convert copy create deactivate delete demote deploy detach disable disarm disconnect dismiss \
    dispatch downgrade drag drain drop duplicate edit enable erase execute fill finalize finish follow \
    fork forward fulfill generate grant hover import insert install invite invoke join kick launch \
    leave make manage mark merge modify move mute navigate new notify open patch pause pay pin play \
    post press promote publish purge push put react rebase reboot redo refund register reject remove \
    rename reopen reorder replace reply rerun reset resize resolve restart restore resume retry revert \
    revoke rollback rotate run save schedule scroll sell send set share shutdown skip start stop store \
    submit subscribe swap swipe tap toggle transfer transform transition trash trigger turn unassign \
    unban unblock undelete undo unfollow uninstall unlock unmute unpin unstar unsubscribe update \
    upgrade upload upsert void write";
/// First words of people who want to know something.
const QUESTION_WORDS: &str = "\
    am any anybody anyone anything are did do does find had has have how hows is list read search see \
    show was were what whats when where wheres which who whom whos whose why";
/// First words of people who want something done.
const COMMAND_WORDS: &str = "\
    add adjust answer archive assign attach ban begin bin block book cancel change clear close create \
    delete dismiss draft drop edit erase fix forget forward give hide import invite jot kick label \
    launch leave let log lose make mark merge modify move mute new note notify pause pin ping play post \
    postpone press publish push put record register remove rename reorder replace reply resize restart \
    restore resume run schedule scrap send share skip stop switch tag tell text throw toss trash turn \
    unfollow unmute unsubscribe update upload wipe write";

static VERBS: LazyLock<HashMap<&str, Effect>> = LazyLock::new(|| table(READING_VERBS, CHANGING_VERBS));
static FIRST_WORDS: LazyLock<HashMap<&str, Effect>> = LazyLock::new(|| table(QUESTION_WORDS, COMMAND_WORDS));

/// Kinds of effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing changes: the tool answers.
    Read,
    /// Something is created, changed, deleted, sent or started.
    Change,
}

/// Returns the effect of a tool; `None` if it has no known verb.
pub(crate) fn effect_of_tool(name: &str, description: &str) -> Option<Effect> {
    let in_name = split_identifier(name).into_iter().take(NAME_WORDS);
    in_name.map(str::to_lowercase).find_map(|word| effect_of_verb(&word)).or_else(|| {
        let sentence = first_sentence(description);
        let first = split_identifier(&sentence).first()?.to_lowercase();
        let stripped = ENDINGS.iter().filter_map(|ending| first.strip_suffix(ending));
        std::iter::once(first.as_str()).chain(stripped).find_map(effect_of_verb)
    })
}

/// Returns the effect that a query wants, which the thesaurus expands by these words; `None` if it tells
/// none.
pub(crate) fn wanted_effect(query: &str, expansion: &[&str]) -> Option<Effect> {
    let words = words(request_of(after_now(request_of(query))));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["give" | "tell", "me", ..] => Some(Effect::Read),
        // "Let me see" and "send me" ask for either.
        ["let" | "send", "me", ..] => None,
        words => {
            let of_first_word = words.first().and_then(|first| FIRST_WORDS.get(first).copied());
            let changes = |word: &&str| effect_of_verb(word) == Some(Effect::Change);
            of_first_word.or_else(|| expansion.iter().any(changes).then_some(Effect::Change))
        }
    }
}

/// Returns a query after a first "now", which belongs to it ("now playing") and tells no effect.
fn after_now(query: &str) -> &str {
    let behind = query.split_at_checked(3).filter(|(first, _)| first.eq_ignore_ascii_case("now"));
    let behind = behind.map(|(_, behind)| behind).filter(|behind| behind.starts_with([' ', ',']));
    behind.map_or(query, |behind| behind.trim_start_matches([' ', ',']))
}

fn effect_of_verb(word: &str) -> Option<Effect> {
    VERBS.get(word).copied()
}

fn table(reading: &'static str, changing: &'static str) -> HashMap<&'static str, Effect> {
    let of = |words: &'static str, effect| words.split_whitespace().map(move |word| (word, effect));
    of(reading, Effect::Read).chain(of(changing, Effect::Change)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_has_the_effect_of_the_verb_in_its_name() {
        for (name, effect) in [
            ("get_issue", Some(Effect::Read)),
            ("zotero_search_items", Some(Effect::Read)),
            ("createPullRequest", Some(Effect::Change)),
            ("issue_comment_delete", Some(Effect::Change)),
            ("getCreatedEvents", Some(Effect::Read)),
            ("translate_text", Some(Effect::Read)),
            ("git_commit", Some(Effect::Change)),
            ("list_commits", Some(Effect::Read)),
            ("weather", None),
        ] {
            assert_eq!(effect_of_tool(name, ""), effect, "{name}");
        }
    }

    #[test]
    fn without_a_verb_in_the_name_the_description_tells() {
        assert_eq!(effect_of_tool("weather", "Fetches the forecast."), Some(Effect::Read));
        assert_eq!(effect_of_tool("conversations_mark", "Lists nothing."), Some(Effect::Change));
        assert_eq!(effect_of_tool("drums", "Added to a track."), Some(Effect::Change));
        assert_eq!(effect_of_tool("drums", "A kit; adds nothing."), None);
    }

    #[test]
    fn questions_want_to_read_and_commands_to_change() {
        for (query, effect) in [
            ("What's on my calendar?", Some(Effect::Read)),
            ("did anybody write me", Some(Effect::Read)),
            ("tell me about it", Some(Effect::Read)),
            ("Please give me the news", Some(Effect::Read)),
            ("tell the team", Some(Effect::Change)),
            ("could you please rename it", Some(Effect::Change)),
            ("now could you please rename it", Some(Effect::Change)),
            ("OK, now send it", Some(Effect::Change)),
            ("now playing", None),
            ("nowcast of rain", None),
            ("let me in", None),
            ("biggest funds", None),
            ("", None),
            ("please", None),
        ] {
            assert_eq!(wanted_effect(query, &[]), effect, "{query}");
        }
    }

    #[test]
    fn everyday_words_tell_where_the_first_word_does_not() {
        assert_eq!(wanted_effect("get rid of it", &["delete", "remove"]), Some(Effect::Change));
        assert_eq!(wanted_effect("who wants it gone", &["delete"]), Some(Effect::Read));
        assert_eq!(wanted_effect("my share", &["get", "portfolio"]), None);
    }

    #[test]
    fn each_word_has_one_effect() {
        for (reading, changing, known) in
            [(READING_VERBS, CHANGING_VERBS, &VERBS), (QUESTION_WORDS, COMMAND_WORDS, &FIRST_WORDS)]
        {
            let words = reading.split_whitespace().chain(changing.split_whitespace());
            assert!(words.clone().all(|word| word.chars().all(|letter| letter.is_ascii_lowercase())));
            assert!(words.count() == known.len() && known.len() > 100, "a word is there twice");
        }
    }
}
