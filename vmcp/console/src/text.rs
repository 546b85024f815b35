//! Texts of other people's servers, as a page shows them: bounded, escaped, and without characters that hide
//! or reorder what a person reads.

use std::fmt::Write as _;

use maud::{Markup, html};

/// Most characters of a name, a title or an error.
pub const MAX_LINE: usize = 300;
/// Most characters of a description.
pub const MAX_PROSE: usize = 4_000;
/// Most characters of a definition or a result.
pub const MAX_DOCUMENT: usize = 60_000;

/// Shows a text within a sentence or a cell: at most [`MAX_LINE`] characters, isolated from the direction of
/// the text around it.
pub fn line(text: &str) -> Markup {
    html! { bdi { (inert(text, MAX_LINE)) } }
}

/// Shows a text of several lines: at most [`MAX_PROSE`] characters.
pub fn prose(text: &str) -> Markup {
    html! { p.prose dir="auto" { (inert(text, MAX_PROSE)) } }
}

/// Shows a document, such as a definition: at most [`MAX_DOCUMENT`] characters, in lines as they are.
pub fn document(label: &str, text: &str) -> Markup {
    html! { pre.scroll tabindex="0" role="region" aria-label=(label) { code { (inert(text, MAX_DOCUMENT)) } } }
}

/// Most marks above and below one letter; further ones would cover the lines around it.
const MAX_MARKS: usize = 4;

/// Returns at most `limit` characters of a text, and says how many more there are. Control characters, marks
/// of writing direction, invisible characters, and piles of marks on one letter become their code points:
/// they could make a text look like another, hide a part of it, or cover its neighbors.
///
/// ```
/// assert_eq!(vmcp_console::text::inert("a\u{202e}b", 10), "a⟨U+202E⟩b");
/// assert_eq!(vmcp_console::text::inert("abcdef", 2), "ab… (4 more characters)");
/// ```
pub fn inert(text: &str, limit: usize) -> String {
    let mut shown = String::new();
    let mut rest = text.chars();
    let mut marks = 0;
    for character in rest.by_ref().take(limit) {
        marks = if is_mark(character) { marks + 1 } else { 0 };
        if is_hidden(character) || marks > MAX_MARKS {
            // Writing to a string cannot fail.
            let _ = write!(shown, "⟨U+{:04X}⟩", u32::from(character));
        } else {
            shown.push(character);
        }
    }
    let more = rest.count();
    if more > 0 {
        let _ = write!(shown, "… ({more} more characters)");
    }
    shown
}

/// Returns true for a character that is invisible or changes the order of others. Returns false
/// for line ends, tabs and the joiners of scripts and emoji.
fn is_hidden(character: char) -> bool {
    let is_layout = matches!(character, '\n' | '\t');
    let is_direction = matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}');
    // Spaces without width, fillers that count as letters, marks of annotations and music, tags, and the
    // variation selectors, which can carry a hidden text: U+FE0E and U+FE0F stay, as emoji need them.
    let is_invisible = matches!(
        character,
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'
            | '\u{2028}' | '\u{2029}' | '\u{2060}'..='\u{2065}' | '\u{2800}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0d}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
    );
    (character.is_control() && !is_layout) || is_direction || is_invisible
}

/// Returns true for a mark that stands above or below the character before it.
fn is_mark(character: char) -> bool {
    matches!(
        character,
        '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}'
            | '\u{20d0}'..='\u{20ff}' | '\u{fe20}'..='\u{fe2f}'
    )
}

/// Shows bytes with a unit.
pub fn bytes(count: u64) -> String {
    match count {
        0..1_000 => format!("{count} B"),
        1_000..1_000_000 => format!("{:.1} kB", count as f64 / 1e3),
        _ => format!("{:.1} MB", count as f64 / 1e6),
    }
}

/// Shows milliseconds with a unit.
pub fn milliseconds(duration: f64) -> String {
    if duration < 10.0 {
        format!("{duration:.1} ms")
    } else if duration < 10_000.0 {
        format!("{duration:.0} ms")
    } else {
        format!("{:.1} s", duration / 1e3)
    }
}

/// Shows a share of 1 as per cent.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_of_a_server_stays_text() {
        let shown = line("<img src=x onerror=alert(1)>").into_string();
        assert_eq!(shown, "<bdi>&lt;img src=x onerror=alert(1)&gt;</bdi>");
    }

    #[test]
    fn invisible_characters_are_named_and_joiners_stay() {
        assert_eq!(inert("a\u{0}\u{1b}[31m", 99), "a⟨U+0000⟩⟨U+001B⟩[31m");
        assert_eq!(inert("\u{e0041}\u{200b}", 99), "⟨U+E0041⟩⟨U+200B⟩");
        let family = "👩\u{200d}👧 ❤\u{fe0f} नमस्ते\n\tx";
        assert_eq!(inert(family, 99), family);
        for hidden in [
            '\u{34f}',
            '\u{115f}',
            '\u{180b}',
            '\u{180e}',
            '\u{206a}',
            '\u{2800}',
            '\u{3164}',
            '\u{fe00}',
            '\u{ffa0}',
            '\u{fff9}',
            '\u{1d173}',
            '\u{e0101}',
        ] {
            assert_eq!(inert(&format!("a{hidden}b"), 99), format!("a⟨U+{:04X}⟩b", u32::from(hidden)));
        }
    }

    #[test]
    fn piles_of_marks_on_a_letter_are_named() {
        let accented = "Việt Nam, e\u{301}\u{323}, नमस्ते, שָׁלוֹם";
        assert_eq!(inert(accented, 99), accented);
        let pile = format!("a{}b", "\u{301}\u{334}".repeat(100));
        let shown = inert(&pile, 999);
        assert!(shown.starts_with("a\u{301}\u{334}\u{301}\u{334}⟨U+0301⟩⟨U+0334⟩"), "{shown}");
        assert!(shown.ends_with("⟨U+0334⟩b"), "{shown}");
    }

    #[test]
    fn a_megabyte_is_cut_and_counted() {
        let shown = prose(&"<b>".repeat(400_000)).into_string();
        assert!(shown.len() < 5 * MAX_PROSE, "{}", shown.len());
        assert!(shown.contains("(1196000 more characters)"));
    }

    #[test]
    fn figures_have_units() {
        assert_eq!([bytes(999), bytes(1_500), bytes(2_000_000)], ["999 B", "1.5 kB", "2.0 MB"]);
        assert_eq!(
            [milliseconds(0.42), milliseconds(120.4), milliseconds(61_000.0)],
            ["0.4 ms", "120 ms", "61.0 s"]
        );
    }
}
