//! Color of the output of commands: on a terminal only, and not if `NO_COLOR` is set.
//!
//! Text is composed with markers, which are noncharacters of Unicode, and rendered after the control
//! characters of backends were removed from it: no text of a backend becomes an escape sequence.

use std::env;

/// Meaning of a piece of text, which decides about its color.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Tone {
    /// The thing works.
    Good,
    /// The thing works in part, or not yet.
    Warning,
    /// The thing does not work.
    Bad,
    /// Headings.
    Strong,
}

impl Tone {
    const ALL: [Tone; 4] = [Tone::Good, Tone::Warning, Tone::Bad, Tone::Strong];

    fn marker(self) -> char {
        match self {
            Tone::Good => '\u{fdd0}',
            Tone::Warning => '\u{fdd1}',
            Tone::Bad => '\u{fdd2}',
            Tone::Strong => '\u{fdd3}',
        }
    }

    /// Returns the escape sequence (SGR) that begins this color.
    fn sequence(self) -> &'static str {
        match self {
            Tone::Good => "\u{1b}[32m",
            Tone::Warning => "\u{1b}[33m",
            Tone::Bad => "\u{1b}[31m",
            Tone::Strong => "\u{1b}[1m",
        }
    }
}

/// Ends a color.
const END: char = '\u{fdd4}';
/// The escape sequence that ends all colors.
const RESET: &str = "\u{1b}[0m";

/// Marks a text with a tone. It must be rendered before it is written.
pub(in crate::cli) fn paint(tone: Tone, text: &str) -> String {
    format!("{}{text}{END}", tone.marker())
}

/// Replaces the markers by colors, or removes them. A color ends with its line at the latest.
pub(super) fn render(text: &str, colored: bool) -> String {
    let mut open = false;
    let mut rendered = String::with_capacity(text.len());
    for c in text.chars() {
        let tone = Tone::ALL.into_iter().find(|tone| tone.marker() == c);
        let ends = open && (c == END || c == '\n');
        if ends {
            rendered.push_str(RESET);
            open = false;
        }
        match tone {
            Some(tone) if colored => {
                rendered.push_str(tone.sequence());
                open = true;
            }
            Some(_) => {}
            None if c == END => {}
            None => rendered.push(c),
        }
    }
    if open {
        rendered.push_str(RESET);
    }
    rendered
}

/// Returns a text without markers.
#[cfg(test)]
pub(in crate::cli) fn plain(text: &str) -> String {
    render(text, false)
}

/// True if standard output takes colors.
pub(super) fn on_stdout() -> bool {
    console::colors_enabled() && is_wanted(env::var("NO_COLOR"))
}

/// True if standard error takes colors.
pub(super) fn on_stderr() -> bool {
    console::colors_enabled_stderr() && is_wanted(env::var("NO_COLOR"))
}

fn is_wanted(no_color: Result<String, env::VarError>) -> bool {
    no_color.map_or(true, |value| value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_color_ends_with_its_text_or_its_line() {
        let text = format!("{} b\n\u{fdd2}c\nd", paint(Tone::Good, "a"));
        assert_eq!(render(&text, true), "\u{1b}[32ma\u{1b}[0m b\n\u{1b}[31mc\u{1b}[0m\nd");
        assert_eq!(render(&text, false), "a b\nc\nd");
    }

    #[test]
    fn a_variable_switches_colors_off() {
        assert!(is_wanted(Err(env::VarError::NotPresent)) && is_wanted(Ok(String::new())));
        assert!(!is_wanted(Ok("1".to_owned())));
    }
}
