//! One tool as text: the fields that are searched by words, and the short text that is embedded.

use crate::text::analysis::split_identifier;
use crate::text::first_sentence;

/// Version of the text that [`vector_text`] makes and of the tokenization behind it. The key of a cached
/// embedding includes it: a new version embeds every tool again instead of mixing two kinds of vector.
pub const TEXT_VERSION: u32 = 1;

/// One tool as the index reads it. The caller sanitizes the texts and bounds their length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Document {
    /// The backend's name.
    pub server: String,
    /// The resolved name of the tool.
    pub name: String,
    /// The whole description.
    pub description: String,
    /// Parameter names and their descriptions, top level of the input schema.
    pub parameters: Vec<(String, String)>,
}

/// Returns the text of a tool that is embedded: `{server} {split name}: {first sentence of the description}`.
///
/// The best of four texts measured alone; after fusion the differences all but vanish, and short texts embed
/// fast.
///
/// ```
/// use vmcp_search::{Document, vector_text};
///
/// let document = Document {
///     server: "github".into(),
///     name: "create_pullRequest".into(),
///     description: "Opens a pull request. Needs a token.".into(),
///     ..Document::default()
/// };
/// assert_eq!(vector_text(&document), "github create pull Request: Opens a pull request.");
/// ```
pub fn vector_text(document: &Document) -> String {
    let name = split_identifier(&document.name).join(" ");
    let sentence = first_sentence(&document.description);
    let head = [document.server.trim(), name.as_str()].into_iter().filter(|part| !part.is_empty());
    let head = head.collect::<Vec<_>>().join(" ");
    match (head.is_empty(), sentence.is_empty()) {
        (_, true) => head,
        (true, false) => sentence,
        (false, false) => format!("{head}: {sentence}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(server: &str, name: &str, description: &str) -> String {
        let parameters = Vec::new();
        vector_text(&Document {
            server: server.into(),
            name: name.into(),
            description: description.into(),
            parameters,
        })
    }

    #[test]
    fn the_text_is_server_split_name_and_first_sentence() {
        assert_eq!(
            text("github", "create_pullRequest", "  Opens a pull\n  request. Needs a token.\n\nArgs: title"),
            "github create pull Request: Opens a pull request."
        );
    }

    #[test]
    fn absent_parts_leave_no_separators() {
        assert_eq!(text("", "echo", ""), "echo");
        assert_eq!(text("s", "echo", " "), "s echo");
        assert_eq!(text("", "", "Says it."), "Says it.");
        assert_eq!(text("", "", ""), "");
    }
}
