//! Topics of messages and of tools: a message that names tickets is about `jira`, and so is a tool whose name
//! or description does. By words alone, without a model: [`Topics::of_message`], [`ToolTags`].

mod tags;
mod words;

pub use tags::{ToolTags, best_fitting, fit, server_context};

use regex::Regex;

use words::{has_issue_key, has_phrase, words};

/// One topic, and the words and patterns that mean it.
#[derive(Debug, Clone)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// Words, or phrases of several words, in lower case. Simple inflections of them mean it too.
    pub keywords: Vec<String>,
    /// Patterns of which one in a text means it.
    pub patterns: Vec<Pattern>,
}

/// A pattern that means a topic.
#[derive(Debug, Clone)]
pub enum Pattern {
    /// The key of an issue, such as `PROJ-123`, but not `UTF-8` and similar words.
    IssueKey,
    /// A regular expression.
    Regex(Regex),
}

impl Pattern {
    fn is_in(&self, text: &str) -> bool {
        match self {
            Self::IssueKey => has_issue_key(text),
            Self::Regex(regex) => regex.is_match(text),
        }
    }
}

/// Known topics, in the order in which they are answered.
#[derive(Debug, Clone)]
pub struct Topics(Vec<Topic>);

/// The topics that are always known.
const BUILT_IN: [(&str, &[&str]); 7] = [
    (
        JIRA,
        &["jira", "ticket", "issue", "sprint", "board", "project", "epic", "story", "task", "bug", "backlog"],
    ),
    ("notes", &["note", "memo", "write", "remember", "document", "text", "save"]),
    ("agile", &["sprint", "agile", "scrum", "kanban", "story", "epic", "release", "velocity"]),
    ("communication", &["comment", "message", "chat", "discuss", "talk", "conversation", "reply"]),
    ("search", &["search", "find", "query", "look for", "locate", "discover"]),
    ("documents", &["file", "document", "attachment", "upload", "download", "read"]),
    ("users", &["user", "assign", "assignee", "watcher", "member", "team", "person", "reporter"]),
];

/// The topic that the key of an issue means.
const JIRA: &str = "jira";

impl Default for Topics {
    fn default() -> Self {
        let topic = |(name, keywords): (&str, &[&str])| Topic {
            name: name.to_owned(),
            keywords: keywords.iter().map(|keyword| (*keyword).to_owned()).collect(),
            patterns: if name == JIRA { vec![Pattern::IssueKey] } else { Vec::new() },
        };
        Topics(BUILT_IN.map(topic).into())
    }
}

impl Topics {
    /// Adds topics. One with the name of a known topic replaces its keywords and its patterns, each where it
    /// gives some.
    #[must_use]
    pub fn with(mut self, more: impl IntoIterator<Item = Topic>) -> Topics {
        for topic in more {
            let Some(known) = self.0.iter_mut().find(|known| known.name == topic.name) else {
                self.0.push(topic);
                continue;
            };
            if !topic.keywords.is_empty() {
                known.keywords = topic.keywords;
            }
            if !topic.patterns.is_empty() {
                known.patterns = topic.patterns;
            }
        }
        self
    }

    /// Leaves the topic of a product out where the product is not named: there, its words mean other things.
    #[must_use]
    pub fn without_absent_product(mut self, names_product: impl Fn(&str) -> bool) -> Topics {
        self.0.retain(|topic| topic.name != JIRA || names_product(JIRA));
        self
    }

    /// Adds a topic for each server, with the words of its name, unless a topic has the name already.
    #[must_use]
    pub fn with_servers<'a>(mut self, names: impl Iterator<Item = &'a str>) -> Topics {
        for name in names {
            if !self.knows(name) {
                let keyword = name.to_lowercase().replace(['-', '_', '.'], " ");
                self.0.push(Topic { name: name.to_owned(), keywords: vec![keyword], patterns: Vec::new() });
            }
        }
        self
    }

    /// True for the name of a known topic.
    pub fn knows(&self, name: &str) -> bool {
        self.0.iter().any(|topic| topic.name == name)
    }

    /// Returns the topics of a message, each once, in the order of the known topics.
    ///
    /// ```
    /// use vmcp_model::topics::Topics;
    ///
    /// let topics = Topics::default();
    /// assert_eq!(topics.of_message("I need to check PROJ-123 ticket comments"), ["jira", "communication"]);
    /// assert!(topics.of_message("Please summarize the profile of my dashboard").is_empty());
    /// ```
    pub fn of_message(&self, message: &str) -> Vec<&str> {
        let words = words(message);
        let means = |topic: &&Topic| {
            topic.patterns.iter().any(|pattern| pattern.is_in(message))
                || topic.keywords.iter().any(|keyword| has_phrase(&words, keyword))
        };
        self.0.iter().filter(means).map(|topic| topic.name.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topics_of(message: &str) -> Vec<String> {
        Topics::default().of_message(message).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn words_and_their_inflections_mean_a_topic() {
        assert_eq!(topics_of("Attachments were assigned while searching"), ["search", "documents", "users"]);
        assert_eq!(topics_of("writing stories"), ["jira", "notes", "agile"]);
        assert_eq!(topics_of("the user's memo"), ["notes", "users"]);
        assert_eq!(topics_of("I look for it"), ["search"]);
        assert_eq!(topics_of("hello there"), [""; 0]);
    }

    #[test]
    fn topics_come_from_the_catalog() {
        let servers = ["google-drive", "notes"];
        let topics =
            Topics::default().without_absent_product(|word| word != "jira").with_servers(servers.into_iter());
        assert_eq!(topics.of_message("put it on Google Drive"), ["google-drive"]);
        assert_eq!(topics.of_message("an issue"), [""; 0], "there is no Jira here");
        assert_eq!(topics.of_message("a memo"), ["notes"], "the built-in words stay");
        assert_eq!(Topics::default().without_absent_product(|_| true).of_message("an issue"), ["jira"]);
    }

    #[test]
    fn words_inside_of_other_words_mean_nothing() {
        assert_eq!(topics_of("no specific context"), [""; 0]);
        assert_eq!(topics_of("Please summarize the profile of my dashboard"), [""; 0]);
    }

    #[test]
    fn the_key_of_an_issue_means_jira_and_the_name_of_a_standard_does_not() {
        assert_eq!(topics_of("see ABC-12"), ["jira"]);
        assert_eq!(topics_of("see ABC-12."), ["jira"]);
        for standard in ["encode this as UTF-8", "SHA-256 of it", "ISO-8601", "COVID-19", "A-1", "abc-12"] {
            assert_eq!(topics_of(standard), [""; 0], "{standard}");
        }
    }

    #[test]
    fn topics_can_be_added_and_replaced() {
        let topic = |name: &str, word: &str| Topic {
            name: name.to_owned(),
            keywords: vec![word.to_owned()],
            patterns: Vec::new(),
        };
        let topics = Topics::default().with([topic("billing", "invoice"), topic("notes", "scribble")]);
        assert_eq!(topics.of_message("my invoice"), ["billing"]);
        assert_eq!(topics.of_message("scribble a memo"), ["notes"]);
        assert!(topics.of_message("a memo").is_empty());
    }

    #[test]
    fn patterns_mean_a_topic_and_replace_those_of_a_known_one() {
        let topic = |name: &str, pattern: &str| Topic {
            name: name.to_owned(),
            keywords: Vec::new(),
            patterns: vec![Pattern::Regex(Regex::new(pattern).unwrap())],
        };
        let billing = topic("billing", r"\bINV-\d+\b");
        let topics = Topics::default().with([billing.clone()]);
        assert_eq!(topics.of_message("what became of INV-7?"), ["jira", "billing"]);
        let topics = topics.with([topic("jira", r"\b[A-Z]{2}-\d+\b")]);
        assert_eq!(topics.of_message("what became of INV-7?"), ["billing"]);
        assert_eq!(topics.of_message("see AB-7"), ["jira"]);
        assert_eq!(topics.of_message("the ticket"), ["jira"], "its keywords stay");
    }
}
