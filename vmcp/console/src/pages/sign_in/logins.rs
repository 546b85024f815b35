//! A person's own logins: servers for which vmcp keeps a token of theirs, and orders to forget it.

use maud::{Markup, html};

use crate::frame::{Frame, table};
use crate::links::{self, link};
use crate::pages::clients::Replicas;
use crate::text;

/// The data of the page.
#[derive(Debug, Clone, Default)]
pub struct MyLogins {
    /// Subject of the person at the provider; `None`: the visitor did not sign in there.
    pub subject: Option<String>,
    /// Logins of the person.
    pub logins: Vec<MyLogin>,
    /// Replicas that were asked; `None` if `server.peers` names none.
    pub replicas: Option<Replicas>,
    /// Logins of this server, which all its clients use; `None` for a viewer.
    pub of_server: Option<Vec<ServerLogin>>,
    /// The login of this server that was just begun.
    pub begun: Option<BegunLogin>,
}

/// A login of `vmcp login`.
#[derive(Debug, Clone, Default)]
pub struct ServerLogin {
    /// The server.
    pub server: String,
    /// Time at which the access token expires, RFC 3339; `None`: not told.
    pub expires: Option<String>,
    /// True if the access token has expired.
    pub is_expired: bool,
    /// True if vmcp renews the token by itself.
    pub is_renewed: bool,
}

/// A login that was begun on the page.
#[derive(Debug, Clone, Default)]
pub struct BegunLogin {
    /// The server.
    pub server: String,
    /// Address at which the person signs in; `None`: the login failed.
    pub address: Option<String>,
    /// Reason of the failure.
    pub reason: String,
}

/// Tokens of the person for one server. None of them is shown.
#[derive(Debug, Clone, Default)]
pub struct MyLogin {
    /// The server.
    pub server: String,
    /// Kind of its credentials, as in the configuration.
    pub kind: String,
    /// Provider whose token the person's client carries; `None`: vmcp fetched the token.
    pub provider: Option<String>,
    /// Time at which the last token expires, RFC 3339.
    pub expires: String,
}

/// Returns the page.
pub fn logins(frame: &Frame, data: &MyLogins) -> String {
    let content = html! {
        @if let Some(login) = &data.begun { (begun(login)) }
        p {
            "Servers for which vmcp keeps a token of yours, to call them for you. "
            "The console shows them to you alone."
        }
        @match &data.subject {
            None => p {
                "A login belongs to a person: sign in at your provider (" code { "server.console: oidc" }
                "), not with a token."
            },
            Some(subject) => {
                p.quiet-text { "You are " (text::line(subject)) "." }
                (unreachable(data.replicas.as_ref()))
                @if data.logins.is_empty() {
                    p {
                        "vmcp keeps no token of yours now. "
                        "It gets one with your first call of a server that wants it."
                    }
                } @else {
                    (table("My logins", &["Server", "Token", "Expires", "Renew or forget"], &html! {
                        @for login in &data.logins { (row(frame, login)) }
                    }))
                }
            },
        }
        @if let Some(logins) = &data.of_server { (server_logins(frame, logins)) }
    };
    frame.page("logins", "My logins", &content)
}

/// Shows the login that was just begun. The address is one of another server: a link, unless it is of another
/// kind than http.
fn begun(login: &BegunLogin) -> Markup {
    let is_http = |address: &&String| address.starts_with("https://") || address.starts_with("http://");
    html! {
        @match login.address.as_ref().filter(is_http) {
            Some(address) => p.notice role="status" {
                "Sign in to " (text::line(&login.server)) " within five minutes: "
                a href=(address) rel="noreferrer" { (text::line(address)) }
            },
            None => p.notice.problem role="alert" {
                "The login to " (text::line(&login.server)) " did not begin: " (text::line(&login.reason))
            },
        }
    }
}

fn server_logins(frame: &Frame, logins: &[ServerLogin]) -> Markup {
    html! {
        h2 { "Logins of this server" }
        @if logins.is_empty() {
            p {
                "There is none. " code { "vmcp login NAME" }
                " on the machine of this server makes one, for all its clients."
            }
        } @else {
            p { "Made by " code { "vmcp login" } "; calls of all clients use them." }
            (table("Logins of this server", &["Server", "Expires", "Renew or forget"], &html! {
                @for login in logins {
                    tr {
                        th scope="row" {
                            a href=(links::server(&login.server)) { (text::line(&login.server)) }
                        }
                        td.time {
                            (login.expires.as_deref().unwrap_or("not told"))
                            @if login.is_renewed { p.hint { "vmcp renews it by itself." } }
                            @else if login.is_expired {
                                p { span.bad { "expired" } ": calls fail until a person signs in again." }
                            }
                        }
                        td {
                            (frame.form(
                                &link("logins/sign-in", &[("server", &login.server)]),
                                &html! { button.quiet { "Sign in again" } },
                            ))
                            (frame.careful_form(
                                &link("logins/sign-out", &[("server", &login.server)]),
                                "Forget",
                                "Deletes the tokens here: calls fail until a person signs in again.",
                                "Forget the login",
                            ))
                        }
                    }
                }
            }))
        }
    }
}

/// Names the replicas whose logins are missing.
fn unreachable(replicas: Option<&Replicas>) -> Markup {
    let missing = replicas.map(|replicas| replicas.unreachable.join(", ")).unwrap_or_default();
    html! {
        @if !missing.is_empty() {
            p.notice.problem { "Without an answer, and so missing here: " (text::line(&missing)) "." }
        }
    }
}

fn row(frame: &Frame, login: &MyLogin) -> Markup {
    let forget = link("logins/forget", &[("server", &login.server)]);
    html! {
        tr {
            th scope="row" { a href=(links::server(&login.server)) { (text::line(&login.server)) } }
            td.wide {
                @match &login.provider {
                    Some(provider) => {
                        "of the provider " (text::line(provider)) ", carried by your client"
                    },
                    None => "fetched by vmcp",
                }
                " (" code { (login.kind) } ")"
            }
            td.time { (login.expires) }
            td {
                @if login.provider.is_some() {
                    (frame.own_careful_form(
                        &forget,
                        "Sign in again",
                        "Ends the sign-ins of all your clients at vmcp: the tokens that they carry are refused \
                         from now on. Each client opens the sign-in with its next request, and carries new \
                         tokens then.",
                        "End my sign-ins",
                    ))
                } @else {
                    (frame.own_careful_form(
                        &forget,
                        "Forget",
                        "vmcp drops the token. Your next call fetches another one in exchange for your client's.",
                        "Forget my token",
                    ))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(subject: Option<&str>, logins_of: Vec<MyLogin>) -> String {
        let frame = Frame { is_viewer: true, form_token: "t0".to_owned(), ..Frame::default() };
        let subject = subject.map(str::to_owned);
        logins(&frame, &MyLogins { subject, logins: logins_of, ..MyLogins::default() })
    }

    fn login(server: &str, provider: Option<&str>) -> MyLogin {
        MyLogin {
            server: server.to_owned(),
            kind: "upstreamInject".to_owned(),
            provider: provider.map(str::to_owned),
            expires: "2026-11-27T23:00:00Z".to_owned(),
        }
    }

    #[test]
    fn a_viewer_renews_and_forgets_their_own_logins() {
        let page = page(Some("ann<b>"), vec![login("a&b", Some("corp<i>")), login("plain", None)]);
        for part in [
            "ann&lt;b&gt;",
            "corp&lt;i&gt;",
            "2026-11-27T23:00:00Z",
            "action=\"/console/logins/forget?server=a%26b\"",
            "name=\"form_token\" value=\"t0\"",
            "<summary>Sign in again…",
            "End my sign-ins</button>",
            "<summary>Forget…",
            "Forget my token</button>",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("orders are for operators"), "{page}");
    }

    #[test]
    fn a_token_is_no_person_and_a_person_may_have_no_login() {
        assert!(page(None, Vec::new()).contains("server.console: oidc"));
        let empty = page(Some("ann"), Vec::new());
        assert!(empty.contains("keeps no token of yours") && !empty.contains("<table>"), "{empty}");
    }

    #[test]
    fn logins_of_the_server_are_an_operators_and_their_address_is_a_link_of_http() {
        let login = ServerLogin { server: "no<b>tes".to_owned(), is_renewed: true, ..ServerLogin::default() };
        let expired = ServerLogin { server: "old".to_owned(), is_expired: true, ..ServerLogin::default() };
        let of_server = vec![login, expired];
        let page = |address: Option<&str>| {
            let begun = BegunLogin {
                server: "notes".to_owned(),
                address: address.map(str::to_owned),
                reason: "it <i>refused".to_owned(),
            };
            let of_server = Some(of_server.clone());
            logins(&Frame::default(), &MyLogins { of_server, begun: Some(begun), ..MyLogins::default() })
        };
        let shown = page(Some("https://login.example/a?b=c&d=\""));
        for part in [
            "no&lt;b&gt;tes",
            "action=\"/console/logins/sign-in?server=no%3Cb%3Etes\"",
            "action=\"/console/logins/sign-out?server=no%3Cb%3Etes\"",
            "vmcp renews it by itself",
            "expired</span>: calls fail until",
            "href=\"https://login.example/a?b=c&amp;d=&quot;\"",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        for failed in [page(None), page(Some("javascript:alert(1)"))] {
            assert!(failed.contains("it &lt;i&gt;refused") && !failed.contains("javascript:"), "{failed}");
        }
        let none =
            logins(&Frame::default(), &MyLogins { of_server: Some(Vec::new()), ..MyLogins::default() });
        assert!(none.contains("vmcp login NAME"), "{none}");
        assert!(!logins(&Frame::default(), &MyLogins::default()).contains("Logins of this server"));
    }

    #[test]
    fn replicas_without_an_answer_are_named() {
        let replicas = Replicas { answering: 1, unreachable: vec!["gone<b>:9090".to_owned()] };
        let data =
            MyLogins { subject: Some("ann".to_owned()), replicas: Some(replicas), ..MyLogins::default() };
        let page = logins(&Frame::default(), &data);
        assert!(page.contains("missing here: <bdi>gone&lt;b&gt;:9090</bdi>"), "{page}");
    }
}
