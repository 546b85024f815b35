//! A form that calls one tool, the questions of its server, and the answer.

mod json_tree;
pub mod question;
mod result;

use maud::{Markup, html};
use serde_json::Value;

use self::question::AskedQuestion;
use super::clients::question::ClientQuestion;
use crate::frame::Frame;
use crate::links::{self, link};
use crate::{schema, text};

/// The data of the page.
#[derive(Debug, Clone, Default)]
pub struct TryTool {
    /// Name under which clients call it.
    pub name: String,
    /// Its server.
    pub server: String,
    /// Its name there.
    pub original: String,
    /// Schema of its arguments.
    pub input_schema: Value,
    /// Texts of the form's fields, by the name of the argument, when the form was sent.
    pub given: Vec<(String, String)>,
    /// Text of the field with arguments as JSON.
    pub given_json: String,
    /// Reason why the console calls no tools here.
    pub refused: Option<&'static str>,
    /// The client as which the call is made; `None`: a client without credentials, as no other one may be
    /// chosen.
    pub client: Option<ClientQuestion>,
    /// Reason why no client can be chosen; empty if one can.
    pub no_client: &'static str,
    /// True if the server gets credentials of each client.
    pub is_per_client: bool,
    /// Subject of the identity as which the call was made; empty without one.
    pub who: String,
    /// True if that identity may not call the tool.
    pub is_denied: bool,
    /// Question of the server that waits for an answer.
    pub question: Option<AskedQuestion>,
    /// Methods of other requests of the server, which the console refuses: sampling, roots.
    pub refused_requests: Vec<String>,
    /// Address that the server wants to be opened before the call is made again.
    pub visit_first: Option<String>,
    /// End of the call, if one was made.
    pub end: Option<CallEnd>,
    /// The result of the call, whose content is shown beside its JSON; null without one.
    pub result: Value,
}

/// End of a call.
#[derive(Debug, Clone)]
pub enum CallEnd {
    /// The arguments could not be read.
    Mistake(String),
    /// The result, or the error, indented; true for a failure.
    Answer(String, bool),
}

/// Returns the page.
pub fn try_tool(frame: &Frame, data: &TryTool) -> String {
    let query = [("server", data.server.as_str()), ("tool", data.original.as_str())];
    let content = html! {
        p { a href=(links::tool(&data.server, &data.original)) { "Its definition" } }
        @if let Some(reason) = data.refused { p.notice.problem { (reason) } }
        @else if let Some(asked) = &data.question {
            (called_as(data))
            (question::question(frame, data, asked))
            (refused_requests(data))
        } @else {
            (end(data))
            h2 { "Arguments" }
            (frame.form(&link("try", &query), &html! {
                (schema::argument_fields(&data.input_schema, &data.given))
                div.field {
                    label for="arguments" { "Further arguments, as one JSON object" }
                    textarea id="arguments" name="arguments" rows="3" spellcheck="false" { (data.given_json) }
                }
                (client(data))
                div.field { label { input type="checkbox" name="consent" value="yes"; " I consent, if a rule of the configuration asks (aggregation.confirm)" } }
                button { "Call the tool" }
            }))
        }
    };
    frame.page("tools", &format!("Try {}", text::inert(&data.name, text::MAX_LINE)), &content)
}

/// Shows the end of the call; without one, the consequences of a call.
fn end(data: &TryTool) -> Markup {
    html! {
        @match &data.end {
            Some(CallEnd::Mistake(mistake)) => p.notice.problem role="alert" { (text::line(mistake)) }
            Some(CallEnd::Answer(answer, is_failure)) => {
                h2 { @if *is_failure { "The call failed" } @else { "Answer" } }
                (called_as(data))
                (refused_requests(data))
                @if let Some(address) = &data.visit_first {
                    (question::visit(address))
                    p { "Then call the tool again." }
                }
                (result::content(&data.result))
                h3 { "As JSON" }
                (text::document("Answer", answer))
            }
            None => p { "This calls the tool. The call counts, and is audited. Questions of the server are asked here." }
        }
    }
}

/// Shows as whom the call was made.
fn called_as(data: &TryTool) -> Markup {
    html! {
        @if !data.who.is_empty() {
            p {
                "Called as " code { (text::line(&data.who)) } "."
                @if data.is_denied {
                    " " strong.bad { "This client may not call the tool" } ": "
                    a href=(why_denied(data)) { "see why" } "."
                }
            }
        }
    }
}

/// Returns the address of the page that explains the rights of the chosen client.
fn why_denied(data: &TryTool) -> String {
    let chosen = data.client.clone().unwrap_or_default();
    let query = [
        ("server", data.server.as_str()),
        ("tool", data.original.as_str()),
        ("who", chosen.who.as_str()),
        ("claims", chosen.claims.as_str()),
        ("issuer", chosen.issuer.as_str()),
        ("profile", chosen.profile.as_str()),
    ];
    link("tool", &query) + "#access"
}

/// Names requests of the server that the console refused.
fn refused_requests(data: &TryTool) -> Markup {
    html! {
        @if !data.refused_requests.is_empty() {
            p.notice {
                "The server also asked for " (text::line(&data.refused_requests.join(", ")))
                ". The console answers forms and addresses alone, and refused it."
            }
        }
    }
}

/// Returns the fields that choose the client of the call, with the credentials that the server gets.
fn client(data: &TryTool) -> Markup {
    html! {
        @if let Some(client) = &data.client {
            h2 { "As whom" }
            (client.mistake())
            (client.fields())
            p.hint {
                "Policies judge this identity and its claims. The audit event names it, and you as the operator who called. "
                @if data.is_per_client {
                    "This server gets credentials of each client, and an operator has none of theirs: as an identity, the call is refused before it is sent."
                } @else {
                    "The server gets the credentials that the configuration has for all clients, and none of this one."
                }
            }
        } @else {
            p.hint { "The call is that of a client without credentials. " (data.no_client) }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_is_inert_and_what_was_typed_stays() {
        let data = TryTool {
            input_schema: json!({"properties": {"a": {"type": "string"}}}),
            given: vec![("a".to_owned(), "typed".to_owned())],
            end: Some(CallEnd::Answer("<script>\u{202e}".repeat(1 << 17), true)),
            ..TryTool::default()
        };
        let page = try_tool(&Frame::default(), &data);
        assert!(page.contains("The call failed") && page.contains(">\ntyped</textarea>"));
        assert!(!page.contains("<script>") && page.len() < 12 * text::MAX_DOCUMENT, "{}", page.len());
    }

    #[test]
    fn the_client_of_a_call_is_chosen_and_its_credentials_are_said() {
        let client = ClientQuestion { who: "bob".to_owned(), ..ClientQuestion::default() };
        let data = TryTool {
            client: Some(client),
            who: "bob".to_owned(),
            is_denied: true,
            refused_requests: vec!["sampling/createMessage".to_owned()],
            end: Some(CallEnd::Answer("{}".to_owned(), true)),
            ..TryTool::default()
        };
        let page = try_tool(&Frame::default(), &data);
        assert!(page.contains("name=\"who\"") && page.contains("credentials that the configuration has"));
        assert!(page.contains("may not call the tool") && page.contains("who=bob&amp;claims="), "{page}");
        assert!(page.contains("sampling/createMessage"), "{page}");
        let page = try_tool(&Frame::default(), &TryTool { is_per_client: true, ..data.clone() });
        assert!(page.contains("refused before it is sent"), "{page}");
        let alone = TryTool { client: None, no_client: "Sign in.", ..data };
        let page = try_tool(&Frame::default(), &alone);
        assert!(page.contains("Sign in.") && !page.contains("name=\"who\""), "{page}");
    }

    #[test]
    fn a_question_stands_in_place_of_the_form_of_the_call() {
        let asked = AskedQuestion { message: "Which one?".to_owned(), ..AskedQuestion::default() };
        let page = try_tool(&Frame::default(), &TryTool { question: Some(asked), ..TryTool::default() });
        assert!(page.contains("Which one?") && !page.contains("Call the tool"), "{page}");
    }

    #[test]
    fn where_calls_are_refused_there_is_no_form() {
        let data = TryTool { refused: Some("clients have to sign in here"), ..TryTool::default() };
        let page = try_tool(&Frame::default(), &data);
        assert!(page.contains("clients have to sign in here") && !page.contains("<form"), "{page}");
    }
}
