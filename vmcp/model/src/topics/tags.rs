//! [`ToolTags`]: contexts and categories of a tool.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Topics;
use super::words::words;
use crate::catalog::CatalogTool;

/// Characters from which a part of a tag matches; a shorter text must be the whole tag.
const MIN_PART_CHARS: usize = 3;
/// First words of names, and the categories that they mean.
const VERBS: [(&str, &[&str]); 6] = [
    ("retrieval", &["get", "list", "read", "fetch", "show"]),
    ("search", &["search", "find", "query"]),
    ("creation", &["create", "add", "new", "make"]),
    ("update", &["update", "edit", "set", "change"]),
    ("deletion", &["delete", "remove"]),
    ("communication", &["send", "post", "reply"]),
];

/// Contexts and categories of a tool: those of its `_meta`, else by its words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolTags {
    /// Contexts in which it is of use.
    pub contexts: Vec<String>,
    /// Kinds of tools that it is one of.
    pub categories: Vec<String>,
    /// Server of the tool, whose name is a context of all its tools; not shown, and empty if a topic has the
    /// name.
    #[serde(skip)]
    pub server: String,
}

impl ToolTags {
    /// Returns the tags of a tool from its `_meta`. Missing tags come from the topics of its name and
    /// description, the verb of its name, and its server.
    pub fn of(tool: &CatalogTool, topics: &Topics) -> ToolTags {
        let said = said(&tool.raw);
        let words = words(&tool.own_name.replace('_', " "));
        let by_words = || {
            let text = format!("{} {}", words.join(" "), tool.description);
            topics.of_message(&text).into_iter().map(str::to_owned).collect()
        };
        let by_verb = || {
            let first = words.first().map(String::as_str).unwrap_or_default();
            let verb = VERBS.iter().find(|(_, verbs)| verbs.contains(&first)).map(|(category, _)| *category);
            verb.into_iter().chain([&*tool.backend]).map(str::to_owned).collect()
        };
        ToolTags {
            contexts: if said.contexts.is_empty() { by_words() } else { said.contexts },
            categories: if said.categories.is_empty() { by_verb() } else { said.categories },
            server: server_context(tool, topics),
        }
    }
}

/// Returns the name of a tool's server, unless a topic has that name: its tools are told by their words.
pub fn server_context(tool: &CatalogTool, topics: &Topics) -> String {
    if topics.knows(&tool.backend) { String::new() } else { tool.backend.to_string() }
}

/// Returns how well a wanted tag fits a tool's: 2 if it is one of them, 1 if one contains the other, else 0.
/// Case does not matter; fewer than three characters must be the whole tag.
pub fn fit(tags: &[String], wanted: &str) -> u8 {
    let wanted = wanted.to_lowercase();
    let fit = |tag: &String| {
        let tag = tag.to_lowercase();
        let within = |part: &str, whole: &str| part.chars().count() >= MIN_PART_CHARS && whole.contains(part);
        if tag == wanted { 2 } else { u8::from(within(&wanted, &tag) || within(&tag, &wanted)) }
    };
    tags.iter().map(fit).max().unwrap_or_default()
}

/// Returns the tools that fit any of the wanted contexts, the best fit first; equals keep their order. The
/// name of a server fits its tools as one of their contexts does.
pub fn best_fitting<'a, T, C: AsRef<str>>(
    tools: impl Iterator<Item = T>,
    tags: impl Fn(&T) -> Option<&'a ToolTags>,
    wanted: &[C],
) -> Vec<T> {
    let strength = |tags: &ToolTags| -> u32 {
        let of_context = |context: &C| {
            let is_server = tags.server.eq_ignore_ascii_case(context.as_ref());
            if is_server { 2 } else { u32::from(fit(&tags.contexts, context.as_ref())) }
        };
        wanted.iter().map(of_context).sum()
    };
    let mut fitting: Vec<(u32, T)> = tools
        .map(|tool| (tags(&tool).map_or(0, strength), tool))
        .filter(|(strength, _)| *strength > 0)
        .collect();
    fitting.sort_by_key(|(strength, _)| Reverse(*strength));
    fitting.into_iter().map(|(_, tool)| tool).collect()
}

/// Returns the tags of a definition's `_meta`.
fn said(raw: &RawValue) -> ToolTags {
    #[derive(Deserialize)]
    struct Definition {
        #[serde(default, rename = "_meta")]
        meta: Option<ToolTags>,
    }
    let definition = serde_json::from_str::<Definition>(raw.get()).ok();
    definition.and_then(|definition| definition.meta).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(all: &[&str]) -> Vec<String> {
        all.iter().map(|tag| (*tag).to_owned()).collect()
    }

    #[test]
    fn a_tag_fits_as_a_whole_or_by_a_part_of_three_characters() {
        let documents = tags(&["jira", "documents"]);
        assert_eq!(
            ["Documents", "document", "my documents", "doc", "do", "j"].map(|wanted| fit(&documents, wanted)),
            [2, 1, 1, 1, 0, 0]
        );
        assert_eq!(fit(&tags(&["ai"]), "AI"), 2);
        assert_eq!(fit(&[], "jira"), 0);
    }

    #[test]
    fn the_best_fit_comes_first_and_what_fits_nothing_is_left_out() {
        let known = [&["notes"][..], &["documents", "jira"], &[], &["document"], &["jira"]]
            .map(|contexts| ToolTags { contexts: tags(contexts), ..ToolTags::default() });
        let ordered = best_fitting(0..=known.len(), |tool| known.get(*tool), &["jira", "document"]);
        assert_eq!(ordered, [1, 3, 4], "3 points, then two of 2 in their order; the last has no tags");
        let of = |server: &str| ToolTags { server: server.to_owned(), ..ToolTags::default() };
        let (github, gitlab) = (of("github"), of("gitlab"));
        let both = [&gitlab, &github];
        let ordered = best_fitting(0..2, |tool| both.get(*tool).copied(), &["GitHub"]);
        assert_eq!(ordered, [1], "by the server's name");
    }

    #[test]
    fn meta_that_is_no_object_says_nothing() {
        let said = |json: &str| said(serde_json::from_str(json).unwrap());
        assert_eq!(said(r#"{"name":"a","_meta":{"contexts":["x"]}}"#).contexts, ["x"]);
        for strange in ["{}", r#"{"_meta":1}"#, r#"{"_meta":{"contexts":"x"}}"#, "[]"] {
            assert_eq!(said(strange), ToolTags::default(), "{strange}");
        }
    }
}
