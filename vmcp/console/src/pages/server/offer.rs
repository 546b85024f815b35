//! The page of one resource, template of resources, or prompt: its definition, and who may use it.

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use crate::frame::Frame;
use crate::links::{self, link};
use crate::pages::tool::{ToolAccess, access};
use crate::text;

/// Most arguments of a prompt that are listed; the definition has all.
const MAX_ARGUMENTS: usize = 100;

/// Kinds of things that a server offers beside tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OfferKind {
    /// A resource, by URI.
    #[default]
    Resource,
    /// A template of resources, by its text.
    Template,
    /// A prompt, by the name that clients use.
    Prompt,
}

impl OfferKind {
    /// Returns the word for the query `?kind=WORD`, and for people.
    pub fn word(self) -> &'static str {
        match self {
            OfferKind::Resource => "resource",
            OfferKind::Template => "template",
            OfferKind::Prompt => "prompt",
        }
    }
}

/// The data of the page.
#[derive(Debug, Clone, Default)]
pub struct OfferPage {
    /// Its kind.
    pub kind: OfferKind,
    /// URI, template, or name of a prompt.
    pub key: String,
    /// Its server.
    pub server: String,
    /// The definition as its server wrote it.
    pub definition: Value,
    /// The definition as its server wrote it, indented.
    pub written: String,
    /// The definition as clients get it, indented; `None` if it is the same.
    pub served: Option<String>,
    /// Rights of one client to it.
    pub access: ToolAccess,
}

/// Returns the page.
pub fn offer(frame: &Frame, data: &OfferPage) -> String {
    let part = |name: &str| data.definition.get(name).and_then(Value::as_str);
    let facts =
        [("Name at its server", part("name")), ("Title", part("title")), ("Media type", part("mimeType"))];
    let named = [("kind", data.kind.word()), ("key", data.key.as_str())];
    let content = html! {
        p { "A " (data.kind.word()) " of " (links::of_server(&data.server)) "." }
        @if let Some(description) = part("description") { (text::prose(description)) }
        dl.facts {
            @for (name, value) in facts {
                @if let Some(value) = value { dt { (name) } dd { (text::line(value)) } }
            }
        }
        (arguments(&data.definition))
        p { a href=(link("calls", &[("server", &data.server)])) { "The latest calls of its server" } "." }
        (access("offer", &named, "use", &data.access))
        h2 { "Definition" }
        h3 { "As its server wrote it" }
        (text::document("Definition as its server wrote it", &data.written))
        @match &data.served {
            Some(served) => { h3 { "As clients get it" } (text::document("Definition as clients get it", served)) }
            None => p { "Clients get it unchanged." }
        }
    };
    frame.page("tools", &text::inert(&data.key, text::MAX_LINE), &content)
}

/// Shows the arguments of a prompt.
fn arguments(definition: &Value) -> Markup {
    let arguments =
        definition.get("arguments").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let part = |argument: &Value, name: &str| {
        argument.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    html! {
        @if !arguments.is_empty() {
            h2 { "Arguments" }
            ul.tree {
                @for argument in arguments.iter().take(MAX_ARGUMENTS) {
                    li {
                        code { (text::line(&part(argument, "name"))) }
                        @let is_required = argument.get("required").is_some_and(|required| required == true);
                        @if is_required { " " strong { "required" } }
                        @let description = part(argument, "description");
                        @if !description.is_empty() { (text::prose(&description)) }
                    }
                }
            }
            @if arguments.len() > MAX_ARGUMENTS {
                p { (arguments.len() - MAX_ARGUMENTS) " more are in the definition." }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_prompt_has_its_definition_and_the_rights_of_a_client() {
        let definition = json!({"name": "greet", "title": "<b>Greets", "arguments": [
            {"name": "who\u{202e}", "required": true, "description": "<script>"}, {"name": "how"},
        ]});
        let access = ToolAccess {
            who: "bob".to_owned(),
            steps: vec![("policy".to_owned(), false, "denied by `no-bob`".to_owned())],
            ..ToolAccess::default()
        };
        let data = OfferPage {
            kind: OfferKind::Prompt,
            key: "s_greet&x".to_owned(),
            server: "s".to_owned(),
            written: definition.to_string(),
            definition,
            served: Some("{\"name\": \"s_greet\"}".to_owned()),
            access,
        };
        let page = offer(&Frame::default(), &data);
        for part in [
            "A prompt of <a href=\"/console/server?server=s\">",
            "&lt;b&gt;Greets",
            "<bdi>who⟨U+202E⟩</bdi></code> <strong>required</strong>",
            "name=\"key\" value=\"s_greet&amp;x\"",
            "may not use it",
            "denied by `no-bob`",
            "As clients get it",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("<script>") && !page.contains("<b>"), "{page}");
    }

    #[test]
    fn a_hostile_resource_is_inert_and_bounded() {
        let long = "<img src=x>".repeat(1 << 17);
        let data = OfferPage {
            key: "javascript:alert(1)".to_owned(),
            server: "s".to_owned(),
            definition: json!({"description": long, "mimeType": long}),
            written: long,
            ..OfferPage::default()
        };
        let page = offer(&Frame::default(), &data);
        assert!(page.len() < 6 * text::MAX_DOCUMENT, "{}", page.len());
        assert!(!page.contains("<img") && !page.contains("href=\"javascript"), "{}", page.len());
        assert!(page.contains("Clients get it unchanged.") && !page.contains("<h2>Arguments"));
    }
}
