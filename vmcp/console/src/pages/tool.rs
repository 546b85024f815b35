//! The page of one tool: what its server wrote, what clients see, its schema, reliability and last change.

use maud::{Markup, html};
use serde_json::Value;

use super::catalog::Visibility;
use super::clients::question::ClientQuestion;
use crate::difference::side_by_side;
use crate::frame::Frame;
use crate::links::{self, EXACT, link};
use crate::{schema, text};

/// The data of the page.
#[derive(Debug, Clone, Default)]
pub struct ToolPage {
    /// Name under which clients call it.
    pub name: String,
    /// Its server.
    pub server: String,
    /// Its name there.
    pub original: String,
    /// Title as clients see it.
    pub title: Option<String>,
    /// Tools that the steps of a composite tool call: name for clients, server, and name there.
    pub steps: Vec<(String, String, String)>,
    /// Description as clients see it.
    pub description: String,
    /// The way by which clients reach it.
    pub visibility: Visibility,
    /// Tokens that it costs in a list.
    pub tokens: u32,
    /// SHA-256 of the definition.
    pub hash: String,
    /// The definition as the server wrote it, indented.
    pub written: String,
    /// The definition as clients get it, indented; `None` if it is the same.
    pub served: Option<String>,
    /// Schema of the arguments.
    pub input_schema: Value,
    /// True if that schema is nested too deeply to be read.
    pub is_schema_too_deep: bool,
    /// Schema of the structured result.
    pub output_schema: Option<Value>,
    /// Figures of its calls; `None` before the first.
    pub reliability: Option<Reliability>,
    /// Its latest change.
    pub change: Option<Change>,
    /// Rights of one client to it.
    pub access: ToolAccess,
}

/// Rights of one client to the tool, each step with its reason.
#[derive(Debug, Clone, Default)]
pub struct ToolAccess {
    /// The client, as the form holds it.
    pub question: ClientQuestion,
    /// Subject of the client, or `anonymous`; empty before a client was asked for.
    pub who: String,
    /// True if it may call the tool.
    pub is_allowed: bool,
    /// Steps of the answer: subject in one word, true if the tool passes, reason.
    pub steps: Vec<(String, bool, String)>,
}

/// Figures of a tool's calls.
#[derive(Debug, Clone, Default)]
pub struct Reliability {
    /// Calls.
    pub calls: u64,
    /// Share of all calls that succeeded, 0 to 1.
    pub success_rate: f64,
    /// Share of about the last 50 calls that succeeded, 0 to 1.
    pub recent_success_rate: f64,
    /// Mean latency of about the last 50 calls, in milliseconds.
    pub recent_latency_ms: f64,
    /// Text of the last error.
    pub last_error: Option<String>,
    /// Time of the last error.
    pub last_error_at: Option<String>,
}

/// The latest change of a definition.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// `pending`, `accepted` or `approved`.
    pub state: String,
    /// Time at which it was noticed.
    pub at: String,
    /// Hash of the definition after the change: an approval is of this definition and no later one.
    pub hash: String,
    /// Path, value before and value after of each field that differs.
    pub fields: Vec<(String, Option<String>, Option<String>)>,
    /// True if as many fields are shown as the maximum.
    pub may_have_more: bool,
}

/// Returns the page.
pub fn tool(frame: &Frame, data: &ToolPage) -> String {
    let content = html! {
        p { "A tool of " (links::of_server(&data.server)) ", " (data.visibility.shown()) "." }
        @if !data.steps.is_empty() {
            p {
                "Its steps call "
                @for (at, (name, server, original)) in data.steps.iter().enumerate() {
                    @if at > 0 { ", " }
                    a href=(links::tool(server, original)) { (text::line(name)) }
                }
                "."
            }
        }
        @if let Some(change) = &data.change { (change_of(frame, data, change)) }
        h2 { "For models" }
        @if let Some(title) = &data.title { p { strong { (text::line(title)) } } }
        (text::prose(&data.description))
        p {
            a href=(link("try", &[("server", &data.server), ("tool", &data.original)])) { "Try it" } ", "
            a href=(link("calls", &[("tool", &data.name), EXACT])) { "its latest calls" } ", "
            a href=(link("calls", &[("tool", &data.name), EXACT, ("outcome", "failed")])) { "those that failed" } ", "
            a href=(link("usage", &[("server", &data.server), ("tool", &data.original)])) { "its usage by day" } "."
        }
        (access("tool", &[("server", &data.server), ("tool", &data.original)], "call", &data.access))
        h2 { "Arguments" }
        @if data.is_schema_too_deep {
            p { "Their schema is nested too deeply to be shown as a tree: the definition has it." }
        } @else { (schema::tree(&data.input_schema)) }
        @if let Some(output) = &data.output_schema { h2 { "Structured result" } (schema::tree(output)) }
        h2 { "Reliability" }
        (reliability(data.reliability.as_ref()))
        @if data.reliability.is_some() {
            (frame.careful_form(
                &link("forget", &[("server", &data.server), ("tool", &data.original)]),
                "Forget these figures",
                "Searches rank the tool as one that was never called, and its sums of days are gone too.",
                "Forget them, on every replica",
            ))
        }
        h2 { "Definition" }
        dl.facts {
            dt { "Name at its server" } dd { code { (text::line(&data.original)) } }
            dt { "Tokens in a list" } dd { (data.tokens) }
            dt { "SHA-256" } dd { code { (data.hash) } }
        }
        h3 { "As its server wrote it" }
        (text::document("Definition as its server wrote it", &data.written))
        @match &data.served {
            Some(served) => { h3 { "As clients get it" } (text::document("Definition as clients get it", served)) }
            None => p { "Clients get it unchanged." }
        }
    };
    frame.page("tools", &text::inert(&data.name, text::MAX_LINE), &content)
}

/// Shows the rights of a client to the thing that `named` names on its `page`, with the form that asks for
/// another client; `verb` says what a client does with it.
pub(crate) fn access(page: &str, named: &[(&str, &str)], verb: &str, access: &ToolAccess) -> Markup {
    let ToolAccess { question, who, is_allowed, steps } = access;
    html! {
        h2 id="access" { "Who may " (verb) " it" }
        form.filter method="get" action=(link(page, &[]) + "#access") {
            @for (name, value) in named { input type="hidden" name=(name) value=(value); }
            (question.fields())
            button { "Ask" }
        }
        (question.mistake())
        @if question.mistake.is_none() && !who.is_empty() {
            p.lead {
                code { (text::line(who)) } " "
                @if *is_allowed { span.good { "may " (verb) " it" } }
                @else { span.bad { "may not " (verb) " it" } }
                "."
            }
            ul {
                @for (subject, passes, why) in steps {
                    li { span class=(if *passes { "good" } else { "bad" }) { (subject) @if *passes { ": yes" } @else { ": no" } } ", " (text::line(why)) }
                }
            }
            p.hint {
                "Judged by the subject and the claims above alone: a policy that reads other claims of a token, such "
                "as groups, may decide otherwise."
            }
        }
    }
}

fn change_of(frame: &Frame, data: &ToolPage, change: &Change) -> Markup {
    let is_pending = change.state == "pending";
    let query =
        [("server", data.server.as_str()), ("tool", data.original.as_str()), ("hash", change.hash.as_str())];
    html! {
        h2 { "Last change" }
        p { (change.at) ": "
            @if is_pending { "hidden from clients until it is approved. Read the difference first." }
            @else { (change.state) "." } }
        @for (field, before, after) in &change.fields {
            h3 { code { (text::line(field)) } }
            (side_by_side(before.as_deref(), after.as_deref()))
        }
        @if change.may_have_more {
            p.notice { "More fields may differ than are shown: compare the whole definition below." }
        }
        @if is_pending {
            (frame.form(&link("approve", &query), &html! { button { "Approve this definition" } }))
        }
    }
}

fn reliability(figures: Option<&Reliability>) -> Markup {
    let Some(figures) = figures else { return html! { p { "No call of it was counted yet." } } };
    html! {
        dl.facts {
            dt { "Calls" } dd { (figures.calls) }
            dt { "Succeeded" } dd { (text::percent(figures.success_rate)) ", lately " (text::percent(figures.recent_success_rate)) }
            dt { "Latency, lately" } dd { (text::milliseconds(figures.recent_latency_ms)) }
            @if let Some(error) = &figures.last_error {
                dt { "Last error" } dd { (text::line(error)) @if let Some(at) = &figures.last_error_at { " (" (at) ")" } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn page(change: Change) -> String {
        let data = ToolPage {
            name: "x_<b>".to_owned(),
            server: "x".to_owned(),
            original: "<b>".to_owned(),
            description: format!("[click](javascript:alert(1))\u{202e}{}", "y".repeat(1 << 20)),
            written: format!("{{\"d\": \"{}\"}}", "<script>".repeat(1 << 17)),
            input_schema: json!({"properties": {"</code><script>": {"type": "string"}}}),
            change: Some(change),
            ..ToolPage::default()
        };
        tool(&Frame::default(), &data)
    }

    #[test]
    fn a_hostile_definition_is_shown_inert_and_bounded() {
        let page = page(Change::default());
        assert!(page.len() < 5 * text::MAX_DOCUMENT, "{}", page.len());
        assert!(!page.contains("<script>") && !page.contains("<b>") && !page.contains('\u{202e}'));
        assert!(!page.contains("href=\"javascript"), "text never becomes a link");
        assert!(page.contains("Clients get it unchanged."));
    }

    #[test]
    fn a_composite_tool_leads_to_the_tools_of_its_steps_and_to_no_server() {
        let steps = vec![("s_a<b>".to_owned(), "s".to_owned(), "a<b>".to_owned())];
        let server = links::COMPOSITE.to_owned();
        let page = tool(&Frame::default(), &ToolPage { server, steps, ..ToolPage::default() });
        assert!(page.contains("A tool of vmcp itself, composed of others"), "{page}");
        assert!(
            page.contains("<a href=\"/console/tool?server=s&amp;tool=a%3Cb%3E\"><bdi>s_a&lt;b&gt;"),
            "{page}"
        );
        assert!(!page.contains("/console/server?"), "{page}");
    }

    #[test]
    fn a_schema_that_is_too_deep_is_named() {
        let page = |is_schema_too_deep| {
            tool(&Frame::default(), &ToolPage { is_schema_too_deep, ..ToolPage::default() })
        };
        assert!(page(true).contains("nested too deeply") && !page(true).contains("No arguments"));
        assert!(page(false).contains("No arguments are described"));
    }

    #[test]
    fn figures_can_be_forgotten_once_there_are_some() {
        let reliability = Some(Reliability { calls: 3, ..Reliability::default() });
        let data = ToolPage { server: "x".to_owned(), original: "y&".to_owned(), ..ToolPage::default() };
        let forget = "action=\"/console/forget?server=x&amp;tool=y%26\"";
        assert!(!tool(&Frame::default(), &data).contains("/console/forget"));
        let page = tool(&Frame::default(), &ToolPage { reliability, ..data });
        assert!(page.contains(forget), "{page}");
    }

    #[test]
    fn the_rights_of_a_client_have_their_reasons() {
        let steps = vec![("policy".to_owned(), false, "denied by `no-<b>bob`".to_owned())];
        let data = ToolPage {
            name: "x_y".to_owned(),
            server: "x".to_owned(),
            access: ToolAccess { who: "bob".to_owned(), steps, ..ToolAccess::default() },
            ..ToolPage::default()
        };
        let page = tool(&Frame::default(), &data);
        assert!(page.contains("may not call it") && page.contains("policy: no"), "{page}");
        assert!(page.contains("denied by `no-&lt;b&gt;bob`"), "{page}");
        assert!(page.contains("Judged by the subject and the claims above alone"), "{page}");
        assert!(page.contains("href=\"/console/calls?tool=x_y&amp;exact=1&amp;outcome=failed\""), "{page}");
    }

    #[test]
    fn only_a_pending_change_can_be_approved_and_its_difference_is_shown() {
        let fields =
            vec![("description".to_owned(), Some("Adds.".to_owned()), Some("Send <key>".to_owned()))];
        let change = |state: &str| Change {
            state: state.to_owned(),
            hash: "a1".to_owned(),
            fields: fields.clone(),
            ..Change::default()
        };
        let pending = page(change("pending"));
        assert!(pending.contains("Send &lt;key&gt;") && pending.contains("Adds."), "the difference");
        assert!(pending.contains("action=\"/console/approve?server=x&amp;tool=%3Cb%3E&amp;hash=a1\""));
        assert!(!pending.contains("More fields may differ"));
        assert!(page(Change { may_have_more: true, ..change("pending") }).contains("More fields may differ"));
        assert!(!page(change("accepted")).contains("/console/approve"));
    }
}
