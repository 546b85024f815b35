//! The exact list of tools that one client is sent: bytes and tokens of each.

use maud::{Markup, html};

use super::question::{ClientQuestion, select};
use crate::frame::{Frame, table};
use crate::links::{self, link};
use crate::text;

/// The data of the page.
#[derive(Debug, Clone, Default)]
pub struct Sent {
    /// The client that the list is for.
    pub question: ClientQuestion,
    /// Name that the client introduces itself with; may be empty.
    pub client: String,
    /// `modern` or `legacy`.
    pub era: String,
    /// Name of the client, for the sentence above the list.
    pub who: String,
    /// Value of `optimizer.exposure` for this client.
    pub exposure: String,
    /// The entries, in the order of the list; at most [`PAGE_SIZE`](super::super::catalog::PAGE_SIZE).
    pub tools: Vec<SentTool>,
    /// Number of all entries.
    pub total: usize,
    /// Bytes of all entries.
    pub bytes: u64,
    /// Tokens of all entries.
    pub tokens: u64,
    /// Tools that the client may find and call.
    pub visible: usize,
    /// Tokens of a list of all these tools.
    pub baseline_tokens: u64,
}

/// One entry of the list.
#[derive(Debug, Clone, Default)]
pub struct SentTool {
    /// Name as the client reads it.
    pub name: String,
    /// Its server and its name there; `None` for a tool of vmcp itself.
    pub of_server: Option<(String, String)>,
    /// Bytes of the entry.
    pub bytes: usize,
    /// Tokens of the entry.
    pub tokens: u64,
}

/// Returns the page.
pub fn sent(frame: &Frame, data: &Sent) -> String {
    let Sent { question, client, era, .. } = data;
    let content = html! {
        form.filter method="get" action=(link("sent", &[])) {
            div.field {
                label for="client" { "Name of the client" }
                input id="client" name="client" placeholder="any" value=(client);
            }
            (select("era", "Era", "modern", &["legacy".to_owned()], era))
            (question.fields())
            button { "Show its list" }
        }
        (question.mistake())
        @if question.mistake.is_none() { (list(data)) }
    };
    frame.page("clients", "The list of one client", &content)
}

fn list(data: &Sent) -> Markup {
    let Sent { tools, total, visible, .. } = data;
    html! {
        p.lead {
            (text::line(&data.who)) " is sent " (total) " tools: " (text::bytes(data.bytes)) ", about " (data.tokens) " tokens."
        }
        p {
            "It may find and call " (visible) " tools; a list of all of them would cost about " (data.baseline_tokens)
            " tokens. " code { "optimizer.exposure" } " is " code { (data.exposure) } "."
        }
        p.hint { "This is the list of a client without a context: " code { "set_context" } " changes it where the exposure is Contextual." }
        @if tools.len() < *total { p { "The first " (tools.len()) " of " (total) "." } }
        (table("Tools in the list", &["Tool", "Server", "Bytes", "Tokens"], &html! {
            @for tool in tools {
                tr {
                    th scope="row" {
                        @if let Some((server, original)) = &tool.of_server {
                            a href=(links::tool(server, original)) { (text::line(&tool.name)) }
                        } @else { (text::line(&tool.name)) }
                    }
                    td { @if let Some((server, _)) = &tool.of_server { (text::line(server)) } @else { "vmcp" } }
                    td.number { (tool.bytes) }
                    td.number { (tool.tokens) }
                }
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_entry_has_its_bytes_and_tokens_and_leads_to_its_tool() {
        let own =
            SentTool { name: "optim_find_tool".to_owned(), bytes: 900, tokens: 220, ..SentTool::default() };
        let of_server = Some(("x".to_owned(), "<b>".to_owned()));
        let foreign = SentTool { name: "x_<b>".to_owned(), of_server, bytes: 31, tokens: 7 };
        let page = sent(
            &Frame::default(),
            &Sent { tools: vec![own, foreign], total: 9, who: "bob".to_owned(), ..Sent::default() },
        );
        for part in ["is sent 9 tools", ">900<", ">7<", "tool?server=x&amp;tool=%3Cb%3E", "The first 2 of 9"]
        {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("<b>"), "{page}");
    }

    #[test]
    fn a_mistake_is_shown_in_place_of_a_list() {
        let question =
            ClientQuestion { mistake: Some("claims: no JSON".to_owned()), ..ClientQuestion::default() };
        let page = sent(&Frame::default(), &Sent { question, ..Sent::default() });
        assert!(page.contains("claims: no JSON") && !page.contains("is sent"), "{page}");
    }
}
