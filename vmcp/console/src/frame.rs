//! [`Frame`]: the head, the navigation and the message that all pages share.

use maud::{DOCTYPE, Markup, html};

use crate::links::link;
use crate::text;

/// Sections of the console, in the order of the navigation: address and name.
const SECTIONS: [(&str, &str); 11] = [
    ("", "Overview"),
    ("tools", "Tools"),
    ("search", "Search"),
    ("wanted", "Wanted"),
    ("calls", "Calls"),
    ("usage", "Usage"),
    ("clients", "Clients"),
    ("logins", "My logins"),
    ("connect", "Connect"),
    ("configuration", "Configuration"),
    ("logs", "Logs"),
];

/// Name of the hidden field with [`Frame::form_token`].
pub const FORM_TOKEN: &str = "form_token";

/// The parts that all pages share.
#[derive(Debug, Clone, Default)]
pub struct Frame {
    /// Version of the server.
    pub version: String,
    /// Value that proves a form to come from a page of this console (CSRF token).
    pub form_token: String,
    /// True if a person signed in with a token, and may sign out.
    pub is_signed_in: bool,
    /// True if the person reads, and gives no orders.
    pub is_viewer: bool,
    /// Message about the last action.
    pub notice: Option<&'static str>,
}

impl Frame {
    /// Returns the page `section` with its content, as HTML.
    pub fn page(&self, section: &str, title: &str, content: &Markup) -> String {
        let body = html! {
            a.skip href="#content" { "Skip to the content" }
            header {
                p.brand { a href=(link("", &[])) { "vmcp" } " console" }
                nav aria-label="Sections" {
                    ul {
                        @for (address, name) in SECTIONS {
                            li { a href=(link(address, &[])) aria-current=[(address == section).then_some("page")] { (name) } }
                        }
                    }
                }
                @if self.is_signed_in {
                    (self.any_form(&link("sign-out", &[]), &html! { button.quiet { "Sign out" } }))
                }
            }
            main id="content" tabindex="-1" {
                h1 { (title) }
                @if let Some(notice) = self.notice { p.notice role="status" { (notice) } }
                (content)
            }
            footer { p { "vmcp " (self.version) } }
        };
        document(title, &body)
    }

    /// Returns the page of a refused request, with its title and the words of the refusal.
    pub fn refusal(&self, title: &str, words: &str) -> String {
        let content = html! {
            div.notice.problem role="alert" { (text::prose(words.trim())) }
            p { a href=(link("", &[])) { "To the overview" } }
        };
        self.page("refusal", title, &content)
    }

    /// Returns a form that changes something, with the token that proves its origin. A viewer reads in its
    /// place that orders are for operators.
    pub fn form(&self, action: &str, content: &Markup) -> Markup {
        if self.is_viewer {
            return html! { p.hint { "Your role is viewer: orders are for operators." } };
        }
        self.any_form(action, content)
    }

    /// As [`Frame::form`], for an order that cannot be taken back: its button stands behind a summary, with
    /// the consequence beside it, and so it is asked for twice.
    pub fn careful_form(&self, action: &str, summary: &str, consequence: &str, button: &str) -> Markup {
        if self.is_viewer {
            return self.form(action, &html! {});
        }
        self.own_careful_form(action, summary, consequence, button)
    }

    /// As [`Frame::careful_form`], for an order about the person who gives it: every role may.
    pub fn own_careful_form(&self, action: &str, summary: &str, consequence: &str, button: &str) -> Markup {
        html! {
            details {
                summary { (summary) "…" }
                p.hint { (consequence) }
                (self.any_form(action, &html! { button.quiet { (button) } }))
            }
        }
    }

    /// As [`Frame::form`], for every role.
    fn any_form(&self, action: &str, content: &Markup) -> Markup {
        html! {
            form method="post" action=(action) {
                input type="hidden" name=(FORM_TOKEN) value=(self.form_token);
                (content)
            }
        }
    }
}

/// Returns a whole document.
pub(crate) fn document(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " – vmcp" }
                link rel="stylesheet" href="/console/console.css";
                link rel="icon" href="data:,";
                script src="/console/console.js" defer {}
            }
            body { (body) }
        }
    };
    page.into_string()
}

/// Returns a table that scrolls by itself where the window is narrow, and can be reached by keyboard.
pub(crate) fn table(label: &str, head: &[&str], rows: &Markup) -> Markup {
    html! {
        div.scroll role="region" tabindex="0" aria-label=(label) {
            table {
                thead { tr { @for name in head { th scope="col" { (name) } } } }
                tbody { (rows) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_viewer_has_no_form_but_that_to_sign_out() {
        let frame = Frame { is_signed_in: true, is_viewer: true, ..Frame::default() };
        let page =
            frame.page("", "x", &frame.form("/console/restart", &html! { button { "Connect again" } }));
        assert!(page.contains("orders are for operators") && !page.contains("/console/restart"), "{page}");
        assert!(page.contains("action=\"/console/sign-out\""), "{page}");
    }

    #[test]
    fn an_order_that_cannot_be_taken_back_stands_behind_its_consequence() {
        let form = |is_viewer| {
            let frame = Frame { is_viewer, ..Frame::default() };
            frame.careful_form("/console/x", "Forget", "It is gone.", "Forget it").into_string()
        };
        let shown = form(false);
        let [summary, hint, button] =
            ["<summary>Forget…", "It is gone.", "Forget it</button>"].map(|part| shown.find(part).unwrap());
        assert!(shown.starts_with("<details>") && summary < hint && hint < button, "{shown}");
        assert!(form(true).contains("orders are for operators") && !form(true).contains("<form"));
    }

    #[test]
    fn a_refusal_is_a_page_with_the_ways_on() {
        let page = Frame::default().refusal("Not found", "no tool is called `<b>`\n");
        assert!(
            page.contains("no tool is called `&lt;b&gt;`</p>") && page.contains("role=\"alert\""),
            "{page}"
        );
        assert!(page.contains("href=\"/console/tools\"") && page.contains("<h1>Not found</h1>"), "{page}");
        assert!(!page.contains("aria-current"), "{page}");
    }

    #[test]
    fn a_page_has_one_heading_landmarks_and_nothing_inline() {
        let frame = Frame { is_signed_in: true, form_token: "t0".to_owned(), ..Frame::default() };
        let page = frame.page("calls", "Calls", &html! { p { "x" } });
        assert_eq!(page.matches("<h1>").count(), 1);
        for part in ["<main id=\"content\"", "<nav aria-label", "lang=\"en\"", "value=\"t0\""] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(page.contains("<a href=\"/console/calls\" aria-current=\"page\">Calls</a>"), "{page}");
        assert!(
            !page.contains("style=") && !page.contains("onclick") && page.matches("<script").count() == 1
        );
    }
}
