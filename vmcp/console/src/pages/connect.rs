//! Snippets by which clients use this server.

use maud::html;

use crate::frame::Frame;
use crate::text;

/// The entry of vmcp in the file of one client.
#[derive(Debug, Clone, Default)]
pub struct ClientSnippet {
    /// The client's name, as `vmcp connect` takes it.
    pub client: String,
    /// Files in which the client keeps its servers.
    pub files: Vec<String>,
    /// Text that belongs into one of them.
    pub text: String,
    /// True if the client starts a program, and reaches no URL.
    pub is_command: bool,
}

/// Returns the page; `url` is the endpoint, if the process knows one.
pub fn connect(frame: &Frame, url: Option<&str>, snippets: &[ClientSnippet]) -> String {
    let content = html! {
        @if let Some(url) = url { p.lead { "The endpoint is " code id="url" { (url) } " " (copy("url", "Copy the endpoint")) } }
        p { code { "vmcp connect CLIENT" } " writes the entry for you, and keeps the rest of the file." }
        @for snippet in snippets {
            @let id = format!("snippet-{}", snippet.client);
            h2 { (snippet.client) }
            p.hint { "In " @for (number, file) in snippet.files.iter().enumerate() { @if number > 0 { " or " } code { (file) } }
                @if snippet.is_command { ". This client starts programs only." } }
            pre.scroll tabindex="0" role="region" aria-label={ "Entry for " (snippet.client) } { code id=(id) { (text::inert(&snippet.text, text::MAX_DOCUMENT)) } }
            (copy(&id, &format!("Copy the entry for {}", snippet.client)))
        }
    };
    frame.page("connect", "Connect a client", &content)
}

/// Returns a button of the script, which copies a text. The script replaces its words, which readers hear.
fn copy(id: &str, words: &str) -> maud::Markup {
    html! { button.quiet type="button" data-copy=(id) aria-live="polite" hidden { (words) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_its_file_and_its_text() {
        let snippet = ClientSnippet {
            client: "cursor".to_owned(),
            files: vec![".cursor/mcp.json".to_owned(), "~/.cursor/mcp.json".to_owned()],
            text: "{ \"url\": \"http://127.0.0.1:8080/mcp\" }".to_owned(),
            is_command: false,
        };
        let page = connect(&Frame::default(), Some("http://127.0.0.1:8080/mcp"), &[snippet]);
        assert!(page.contains(".cursor/mcp.json</code> or <code>~/.cursor/mcp.json"), "{page}");
        assert!(page.contains("<code id=\"snippet-cursor\">{ &quot;url&quot;"), "{page}");
        assert!(page.contains("hidden>Copy the entry for cursor</button>"), "{page}");
    }
}
