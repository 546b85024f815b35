//! A form that calls one tool, and the answer.

mod result;

use maud::html;
use serde_json::Value;

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
        @else {
            @match &data.end {
                Some(CallEnd::Mistake(mistake)) => p.notice.problem role="alert" { (text::line(mistake)) }
                Some(CallEnd::Answer(answer, is_failure)) => {
                    h2 { @if *is_failure { "The call failed" } @else { "Answer" } }
                    (result::content(&data.result))
                    h3 { "As JSON" }
                    (text::document("Answer", answer))
                }
                None => p { "This calls the tool. The call counts, and is audited, like that of a client without credentials." }
            }
            h2 { "Arguments" }
            (frame.form(&link("try", &query), &html! {
                (schema::fields(&data.input_schema, &data.given))
                div.field {
                    label for="arguments" { "Further arguments, as one JSON object" }
                    textarea id="arguments" name="arguments" rows="3" spellcheck="false" { (data.given_json) }
                }
                div.field { label { input type="checkbox" name="consent" value="yes"; " I consent, if a rule of the configuration asks (aggregation.confirm)" } }
                button { "Call the tool" }
            }))
        }
    };
    frame.page("tools", &format!("Try {}", text::inert(&data.name, text::MAX_LINE)), &content)
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
        assert!(page.contains("The call failed") && page.contains("value=\"typed\""));
        assert!(!page.contains("<script>") && page.len() < 12 * text::MAX_DOCUMENT, "{}", page.len());
    }

    #[test]
    fn where_calls_are_refused_there_is_no_form() {
        let data = TryTool { refused: Some("clients have to sign in here"), ..TryTool::default() };
        let page = try_tool(&Frame::default(), &data);
        assert!(page.contains("clients have to sign in here") && !page.contains("<form"), "{page}");
    }
}
