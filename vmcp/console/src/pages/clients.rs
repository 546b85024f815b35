//! Clients: connections, sessions and limits of this process, its replicas, and the callers of the latest
//! calls.

pub mod question;
pub mod sent;

use maud::{Markup, html};

use self::question::ClientQuestion;
use crate::frame::{Frame, table};
use crate::links::{self, EXACT, link};
use crate::text;

/// The data of the page.
#[derive(Debug, Clone, Default)]
pub struct Clients {
    /// Figures of this process: name and value.
    pub figures: Vec<(&'static str, String)>,
    /// Limits on clients.
    pub limits: Vec<Limit>,
    /// The replicas; `None` if `server.peers` names none.
    pub replicas: Option<Replicas>,
    /// Callers of the latest calls, the busiest first; at most [`MAX_CALLERS`].
    pub callers: Vec<Caller>,
    /// Sessions that clients hold at each server, by its name.
    pub sessions: Vec<(String, usize)>,
    /// Form that asks for the list of one client.
    pub question: ClientQuestion,
}

/// Most callers that the page lists.
pub const MAX_CALLERS: usize = 100;

/// One limit on clients.
#[derive(Debug, Clone, Default)]
pub struct Limit {
    /// Counted things, such as `connections`.
    pub what: &'static str,
    /// Most of one client, with the unit.
    pub per_client: String,
    /// Most of all clients together, with the unit; empty without a limit.
    pub all: String,
    /// Setting that changes it; empty if it is fixed.
    pub setting: &'static str,
    /// Number in use now; empty if it is not counted.
    pub used: String,
    /// Refusals since the start; `None` if they are counted elsewhere.
    pub refused: Option<u64>,
}

/// The replicas of this server.
#[derive(Debug, Clone, Default)]
pub struct Replicas {
    /// Replicas that answer, this one included.
    pub answering: usize,
    /// Addresses and names that gave no report.
    pub unreachable: Vec<String>,
}

/// One caller of the latest calls.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// Subject of its identity, or address.
    pub who: String,
    /// Issuer that vouches for it; empty for an address.
    pub issuer: String,
    /// Its calls among the kept ones.
    pub calls: usize,
    /// Failed calls among them.
    pub failed: usize,
}

/// Returns the page.
pub fn clients(frame: &Frame, data: &Clients) -> String {
    let content = html! {
        ul.figures { @for (name, value) in &data.figures { li { strong { (value) } (name) } } }
        h2 { "The list of one client" }
        p { "Shows the exact tools that a client is sent, with their bytes and tokens." }
        form.filter method="get" action=(link("sent", &[])) {
            (data.question.fields())
            button { "Show its list" }
        }
        h2 { "Callers" }
        (callers(&data.callers))
        h2 { "Limits" }
        (limits(&data.limits))
        h2 { "Replicas" }
        (replicas(data.replicas.as_ref()))
        h2 { "Sessions at servers" }
        @if data.sessions.is_empty() { p { "No server keeps a session for a client now." } }
        @else {
            (table("Sessions at servers", &["Server", "Sessions"], &html! {
                @for (server, count) in &data.sessions {
                    tr { th scope="row" { a href=(links::server(server)) { (text::line(server)) } } td.number { (count) } }
                }
            }))
        }
    };
    frame.page("clients", "Clients", &content)
}

fn callers(callers: &[Caller]) -> Markup {
    if callers.is_empty() {
        return html! { p { "No call has ended yet." } };
    }
    table(
        "Callers",
        &["Caller", "Latest calls", "Failed"],
        &html! {
            @for caller in callers {
                tr {
                    th scope="row" { a href=(links::calls_of(&caller.who)) { (text::line(&caller.who)) }
                        @if !caller.issuer.is_empty() { p.hint { (text::line(&caller.issuer)) } } }
                    td.number { (caller.calls) }
                    td.number {
                        @if caller.failed > 0 {
                            a href=(link("calls", &[("who", &caller.who), EXACT, ("outcome", "failed")])) { (caller.failed) }
                        } @else { "0" }
                    }
                }
            }
        },
    )
}

fn limits(limits: &[Limit]) -> Markup {
    table(
        "Limits",
        &["Limit", "In use", "Of one client", "Of all", "Refused", "Setting"],
        &html! {
            @for limit in limits {
                tr {
                    th scope="row" { (limit.what) }
                    td.number { (dash(&limit.used)) }
                    td.number { (dash(&limit.per_client)) }
                    td.number { (dash(&limit.all)) }
                    td.number { @if let Some(refused) = limit.refused { (refused) } @else { "–" } }
                    td { @if limit.setting.is_empty() { "fixed" } @else { code { (limit.setting) } } }
                }
            }
        },
    )
}

fn dash(text: &str) -> &str {
    if text.is_empty() { "–" } else { text }
}

/// Says of how many replicas the data of a page are, and which are missing; nothing for one process.
pub(crate) fn asked_replicas(replicas: Option<&Replicas>) -> Markup {
    html! {
        @if let Some(replicas) = replicas {
            p.quiet-text { "Of " (replicas.answering) " replicas, this one included." }
            @if !replicas.unreachable.is_empty() {
                p.notice.problem {
                    "Without an answer, and so missing here: " (text::line(&replicas.unreachable.join(", "))) "."
                }
            }
        }
    }
}

fn replicas(replicas: Option<&Replicas>) -> Markup {
    let Some(replicas) = replicas else {
        return html! { p { "This process knows of no other replica (" code { "server.peers" } " is empty)." } };
    };
    html! {
        p { (replicas.answering) " answer, this one included." }
        @if !replicas.unreachable.is_empty() {
            p.notice.problem { "Without an answer: " (text::line(&replicas.unreachable.join(", "))) "." }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_leads_to_its_calls_and_its_failures() {
        let caller = Caller { who: "bob&co".to_owned(), issuer: "https://a".to_owned(), calls: 3, failed: 2 };
        let page = clients(&Frame::default(), &Clients { callers: vec![caller], ..Clients::default() });
        assert!(page.contains("href=\"/console/calls?who=bob%26co&amp;exact=1\""), "{page}");
        assert!(page.contains("https://a"), "the issuer tells callers of one name apart: {page}");
        assert!(
            page.contains("href=\"/console/calls?who=bob%26co&amp;exact=1&amp;outcome=failed\">2<"),
            "{page}"
        );
    }

    #[test]
    fn limits_and_replicas_are_shown_with_what_is_missing() {
        let limit =
            Limit { what: "connections", per_client: "7".to_owned(), refused: Some(4), ..Limit::default() };
        let replicas = Replicas { answering: 2, unreachable: vec!["gone<b>:9090".to_owned()] };
        let data = Clients { limits: vec![limit], replicas: Some(replicas), ..Clients::default() };
        let page = clients(&Frame::default(), &data);
        assert!(page.contains("<td class=\"number\">7</td>") && page.contains("<td class=\"number\">4</td>"));
        assert!(page.contains("2 answer") && page.contains("gone&lt;b&gt;:9090"), "{page}");
        assert!(clients(&Frame::default(), &Clients::default()).contains("server.peers"));
    }
}
