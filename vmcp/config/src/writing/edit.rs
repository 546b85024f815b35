//! Edits of a configuration's text that keep its comments: adding, removing and switching single backends.
//!
//! The entries of `backends` are found by their lines; only lines of the entry at hand change. Every edit is
//! checked by parsing its result: a text that the edit does not fit, such as one in flow style, is refused.

mod lines;
mod tool_rules;

use self::lines::BackendLines;
use crate::document::{Content, Node};
use crate::problems::Report;

/// Reason why a text was not edited.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The text is not readable as YAML.
    #[error("the file has mistakes; `vmcp validate` shows them")]
    Unreadable,
    /// No backend has this name.
    #[error("there is no backend `{0}`")]
    NoBackend(String),
    /// There is a backend of this name already.
    #[error("there is a backend `{0}` already")]
    Taken(String),
    /// The list is not written in lines of its own.
    #[error("`backends` is not a list of one entry a line group (`- name: …`); edit the file by hand")]
    Style,
}

/// Appends entries of these backends behind the last one.
///
/// # Examples
///
/// ```
/// use vmcp_config::edit::append;
///
/// let text = "# mine\nbackends:\n- name: a\n  url: https://a.example\n";
/// let text = append(text, "- name: time\n  command: [time]\n", &["time".to_owned()])?;
/// assert!(text.starts_with("# mine") && text.ends_with("- name: time\n  command: [time]\n"));
/// # Ok::<(), vmcp_config::edit::EditError>(())
/// ```
pub fn append(text: &str, entries: &str, added: &[String]) -> Result<String, EditError> {
    with_line_ends(text, |text| {
        let mut expected = names(text)?;
        if let Some(taken) = added.iter().find(|name| expected.contains(name)) {
            return Err(EditError::Taken(taken.clone()));
        }
        expected.extend(added.iter().cloned());
        let edited = BackendLines::find(text).ok_or(EditError::Style)?.append(entries);
        checked(edited, &expected)
    })
}

/// Removes a backend, with the comments directly above it and its rules in `aggregation.tools`.
pub fn remove(text: &str, name: &str) -> Result<String, EditError> {
    with_line_ends(text, |text| {
        let (edited, expected) = without_entry(text, name)?;
        checked(tool_rules::without_rules(edited, name), &expected)
    })
}

/// Removes the entry of a backend, with the comments directly above it. Its rules in `aggregation.tools`
/// stay, for a backend of the same name, or because a person wrote them.
pub fn remove_entry(text: &str, name: &str) -> Result<String, EditError> {
    with_line_ends(text, |text| {
        let (edited, expected) = without_entry(text, name)?;
        checked(edited, &expected)
    })
}

/// Returns the text without the entry of a backend, and the names of the others.
fn without_entry(text: &str, name: &str) -> Result<(String, Vec<String>), EditError> {
    let mut names = names(text)?;
    let index = position(&names, name)?;
    let edited = BackendLines::find(text).and_then(|lines| lines.remove(index)).ok_or(EditError::Style)?;
    names.remove(index);
    Ok((edited, names))
}

/// Sets `enabled` of a backend.
pub fn set_enabled(text: &str, name: &str, enabled: bool) -> Result<String, EditError> {
    with_line_ends(text, |text| {
        let expected = names(text)?;
        let index = position(&expected, name)?;
        let edited = BackendLines::find(text).and_then(|lines| lines.set_enabled(index, enabled));
        checked(edited.ok_or(EditError::Style)?, &expected)
    })
}

/// Edits a text with line ends and byte order mark of Windows as one without, and gives them back.
fn with_line_ends(
    text: &str,
    edit: impl FnOnce(&str) -> Result<String, EditError>,
) -> Result<String, EditError> {
    const BYTE_ORDER_MARK: &str = "\u{feff}";
    let (mark, body) = match text.strip_prefix(BYTE_ORDER_MARK) {
        Some(body) => (BYTE_ORDER_MARK, body),
        None => ("", text),
    };
    if !body.contains("\r\n") {
        return edit(body).map(|edited| format!("{mark}{edited}"));
    }
    let edited = edit(&body.replace("\r\n", "\n"))?;
    Ok(format!("{mark}{}", edited.replace('\n', "\r\n")))
}

/// Returns the names of the backends in the order of the text.
pub fn names(text: &str) -> Result<Vec<String>, EditError> {
    let root = crate::document::parse(text, &mut Report::default()).ok_or(EditError::Unreadable)?;
    let Some(list) = lines::backends_of(&root) else { return Ok(Vec::new()) };
    Ok(list.iter().map(|backend| name_of(backend).unwrap_or_default().to_owned()).collect())
}

fn name_of(backend: &Node) -> Option<&str> {
    let Content::Map(entries) = &backend.content else { return None };
    let (_, _, name) = entries.iter().find(|(key, _, _)| key == "name")?;
    if let Content::Text(name) = &name.content { Some(name) } else { None }
}

fn position(names: &[String], name: &str) -> Result<usize, EditError> {
    names.iter().position(|one| one == name).ok_or_else(|| EditError::NoBackend(name.to_owned()))
}

fn checked(edited: String, expected: &[String]) -> Result<String, EditError> {
    if names(&edited).is_ok_and(|names| names == expected) { Ok(edited) } else { Err(EditError::Style) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = concat!(
        "# head\nserver: { listen: '127.0.0.1:1' }\nbackends:\n",
        "  # the first\n  - name: a\n    url: https://a   # here\n    headers:\n      X: y\n\n",
        "  # the second\n  - name: b\n    command: [b]\n    enabled: false\n\n",
        "# tail\nproxy: {}\n",
    );

    fn add(text: &str, name: &str) -> Result<String, EditError> {
        append(text, &format!("# a note\n- name: {name}\n  url: https://t\n"), &[name.to_owned()])
    }

    #[test]
    fn a_backend_is_added_behind_the_last_with_its_indentation() {
        let text = add(TEXT, "time").unwrap();
        assert!(
            text.contains("    enabled: false\n  # a note\n  - name: time\n    url: https://t\n\n# tail\n"),
            "{text}"
        );
        assert_eq!(text.replace("  # a note\n  - name: time\n    url: https://t\n", ""), TEXT);
        for empty in ["", "# nothing\n", "backends: []\nproxy: {}\n", "backends:\n", "proxy: {}"] {
            let text = add(empty, "time").unwrap();
            assert_eq!(names(&text).unwrap(), ["time"], "{text}");
        }
        assert_eq!(add(TEXT, "a"), Err(EditError::Taken("a".to_owned())));
    }

    #[test]
    fn a_backend_is_removed_with_its_comments() {
        let text = remove(TEXT, "a").unwrap();
        assert!(!text.contains("first") && !text.contains("here") && text.contains("# the second"), "{text}");
        assert_eq!(names(&remove(&text, "b").unwrap()).unwrap(), Vec::<String>::new());
        assert_eq!(remove(TEXT, "c"), Err(EditError::NoBackend("c".to_owned())));
    }

    #[test]
    fn a_removed_backend_takes_its_rules_about_tools_with_it() {
        let head = "backends:\n  - name: a\n    command: [a]\n  - name: b\n    command: [b]\naggregation:\n";
        let of_b = "    # about b\n    - workload: b\n      overrides:\n        x: { name: y }\n\n";
        let rules = [
            "  tools:\n    # about a\n    - workload: a\n      filter: [x]\n",
            of_b,
            "    - { workload: a, excludeAll: true }\n# tail\n",
        ]
        .concat();
        let text = remove(&format!("{head}{rules}"), "a").unwrap();
        let head_of_b = "backends:\n  - name: b\n    command: [b]\naggregation:\n  tools:\n";
        assert_eq!(text, format!("{head_of_b}{of_b}# tail\n"));
        let text = remove(&text, "b").unwrap();
        assert_eq!(text, "backends: []\naggregation:\n  tools: []\n\n# tail\n");
        assert_eq!(remove_entry(&format!("{head}{rules}"), "a").unwrap().matches("workload: a").count(), 2);
        let flow = format!("{head}  tools: [{{ workload: a, filter: [x] }}]\n");
        assert!(
            remove(&flow, "a").unwrap().ends_with("  tools: [{ workload: a, filter: [x] }]\n"),
            "it stays"
        );
    }

    #[test]
    fn a_backend_is_switched_off_and_on() {
        let text = set_enabled(TEXT, "a", false).unwrap();
        assert!(text.contains("  - name: a\n    enabled: false\n    url: https://a   # here\n"), "{text}");
        assert_eq!(set_enabled(&text, "a", true).unwrap(), TEXT);
        let on = set_enabled(TEXT, "b", true).unwrap();
        assert!(!on.contains("enabled"), "{on}");
        assert_eq!(set_enabled(TEXT, "b", false).unwrap(), TEXT);
    }

    #[test]
    fn line_ends_and_the_mark_of_windows_stay() {
        let text = format!("\u{feff}{}", TEXT.replace('\n', "\r\n"));
        let added = add(&text, "time").unwrap();
        assert_eq!(added, format!("\u{feff}{}", add(TEXT, "time").unwrap().replace('\n', "\r\n")));
        assert!(!remove(&added, "time").unwrap().replace("\r\n", "").contains(['\r', '\n']));
        let off = set_enabled("\u{feff}backends:\n- name: a\n  command: [a]\n", "a", false).unwrap();
        assert_eq!(off, "\u{feff}backends:\n- name: a\n  enabled: false\n  command: [a]\n");
    }

    #[test]
    fn other_styles_are_refused_and_never_broken() {
        for text in ["{ \"backends\": [{ \"name\": \"a\" }] }", "backends: [{ name: a, url: 'http://a' }]\n"]
        {
            assert_eq!(add(text, "time"), Err(EditError::Style), "{text}");
            assert_eq!(remove(text, "a"), Err(EditError::Style), "{text}");
        }
        assert_eq!(add("backends: [", "time"), Err(EditError::Unreadable));
    }
}
