//! A question of a server in the midst of a call, with the form of its answer.

use maud::{Markup, html};
use serde_json::Value;
use url::Url;

use super::TryTool;
use crate::frame::Frame;
use crate::links::link;
use crate::{schema, text};

/// Field of the form with the number of the question that it answers.
pub const QUESTION: &str = "question";
/// Field of the form with the answer: `accept`, `decline` or `cancel`.
pub const ACTION: &str = "action";
/// Most characters of an address.
const MAX_ADDRESS: usize = 2_000;

/// A question of the server of a tool that is tried.
#[derive(Debug, Clone, Default)]
pub struct AskedQuestion {
    /// The call that waits, as the answer names it.
    pub call: String,
    /// Number of the question within the call.
    pub number: u64,
    /// Its words.
    pub message: String,
    /// Its kind.
    pub kind: QuestionKind,
    /// Texts of the form's fields, by the name of the value.
    pub given: Vec<(String, String)>,
    /// Mistake in the answer before.
    pub mistake: Option<String>,
    /// Questions that follow it and wait already.
    pub further: usize,
    /// Seconds for which the call waits.
    pub waits_seconds: u64,
}

/// A kind of question.
#[derive(Debug, Clone)]
pub enum QuestionKind {
    /// A form, with its schema.
    Form(Value),
    /// An address to open.
    Visit(String),
}

impl Default for QuestionKind {
    fn default() -> Self {
        QuestionKind::Form(Value::Null)
    }
}

/// Shows a question with the form of its answer.
pub(super) fn question(frame: &Frame, data: &TryTool, asked: &AskedQuestion) -> Markup {
    let query =
        [("server", data.server.as_str()), ("tool", data.original.as_str()), ("call", asked.call.as_str())];
    html! {
        h2 id="question" { "The server asks" }
        @if let Some(mistake) = &asked.mistake { p.notice.problem role="alert" { (text::line(mistake)) } }
        (text::prose(&asked.message))
        p.hint {
            "The call goes on with your answer. It waits for " (asked.waits_seconds / 60) " minutes, unless its server or "
            "the time limit of the tool ends it before."
            @if asked.further == 1 { " Another question follows." }
            @if asked.further > 1 { " " (asked.further) " more questions follow." }
        }
        (frame.form(&link("try/answer", &query), &html! {
            input type="hidden" name=(QUESTION) value=(asked.number);
            @match &asked.kind {
                QuestionKind::Form(form) => { (fields(form, &asked.given)) }
                QuestionKind::Visit(address) => { (visit(address)) }
            }
            div.actions {
                @if asked.may_accept() {
                    button name=(ACTION) value="accept" { @if asked.is_visit() { "I have opened it" } @else { "Send the answer" } }
                }
                button.quiet name=(ACTION) value="decline" { "Decline" }
                button.quiet name=(ACTION) value="cancel" { "Cancel" }
            }
        }))
    }
}

impl AskedQuestion {
    fn is_visit(&self) -> bool {
        matches!(self.kind, QuestionKind::Visit(_))
    }

    /// Returns false for an address that no browser should open.
    fn may_accept(&self) -> bool {
        match &self.kind {
            QuestionKind::Form(_) => true,
            QuestionKind::Visit(address) => web_address(address).is_some(),
        }
    }
}

fn fields(form: &Value, given: &[(String, String)]) -> Markup {
    let has_fields = form.get("properties").and_then(Value::as_object).is_some_and(|it| !it.is_empty());
    html! {
        @if has_fields {
            (schema::fields(form, given))
            div.field {
                label for="arguments" { "Further values, as one JSON object" }
                textarea id="arguments" name="arguments" rows="3" spellcheck="false" {}
            }
        } @else { p { "It asks for your consent alone." } }
    }
}

/// Shows an address as a text: a person copies it once its host is known to them. It is never a link.
pub(super) fn visit(address: &str) -> Markup {
    let Some(address) = web_address(address) else {
        return html! {
            p.notice.problem { "It asks to open an address of no web page: " (text::line(address)) }
        };
    };
    html! {
        p { "It asks to open an address of the host " strong { (text::line(address.host_str().unwrap_or_default())) } ":" }
        pre.scroll tabindex="0" role="region" aria-label="Address" {
            code id="question-address" { (text::inert(address.as_str(), MAX_ADDRESS)) }
        }
        button.quiet type="button" data-copy="question-address" aria-live="polite" hidden { "Copy the address" }
        p.hint { "Open it only if you trust this host. The console itself opens nothing." }
    }
}

/// Reads an address of the web, with the host as browsers connect to it.
fn web_address(address: &str) -> Option<Url> {
    Url::parse(address).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(kind: QuestionKind) -> String {
        let data = TryTool { server: "s&".to_owned(), original: "t".to_owned(), ..TryTool::default() };
        let message = "<script>who\u{202e}".to_owned();
        let asked = AskedQuestion {
            call: "c1".to_owned(),
            number: 3,
            message,
            kind,
            further: 2,
            waits_seconds: 300,
            ..AskedQuestion::default()
        };
        question(&Frame::default(), &data, &asked).into_string()
    }

    #[test]
    fn a_form_has_the_fields_of_its_schema_and_three_answers() {
        let schema = json!({"required": ["name"], "properties": {"name": {"type": "string"}}});
        let page = shown(QuestionKind::Form(schema));
        for part in [
            "action=\"/console/try/answer?server=s%26&amp;tool=t&amp;call=c1\"",
            "name=\"question\" value=\"3\"",
            "name=\"argument.name\"",
            "value=\"accept\"",
            "value=\"decline\"",
            "value=\"cancel\"",
            "&lt;script&gt;who⟨U+202E⟩",
            "It waits for 5 minutes",
            "2 more questions follow",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        let consent = shown(QuestionKind::Form(json!({"type": "object", "properties": {}})));
        assert!(consent.contains("consent alone") && !consent.contains("<textarea"), "{consent}");
    }

    #[test]
    fn an_address_is_a_text_beside_its_host_and_no_link() {
        let page = shown(QuestionKind::Visit("https://user@evil.example/a?b=<c>".to_owned()));
        assert!(page.contains("<strong><bdi>evil.example</bdi></strong>"), "{page}");
        assert!(page.contains("https://user@evil.example/a?b=%3Cc%3E"), "{page}");
        assert!(!page.contains("href") && page.contains("I have opened it"), "{page}");
        for address in ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "no address"] {
            let page = shown(QuestionKind::Visit(address.to_owned()));
            assert!(!page.contains("value=\"accept\"") && page.contains("value=\"decline\""), "{page}");
            assert!(!page.contains("href") && page.contains("no web page"), "{page}");
        }
        let disguised = shown(QuestionKind::Visit("https://p\u{430}ypal.com/".to_owned()));
        assert!(disguised.contains("<bdi>xn--"), "{disguised}");
    }
}
