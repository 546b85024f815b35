//! Lines for a terminal, broken between words: a terminal itself breaks them in the middle of a word.

/// Narrowest terminal for which lines are broken, in columns.
const MIN_WIDTH: usize = 40;
/// Further indentation of a continued line, in columns.
const HANGING: usize = 4;

/// Breaks lines that are longer than `width` columns at blanks; the rest follows indented. A longer word,
/// such as a path, stays whole.
pub(super) fn wrapped(text: &str, width: usize) -> String {
    if width < MIN_WIDTH {
        return text.to_owned();
    }
    let lines: Vec<String> = text.split('\n').map(|line| wrapped_line(line, width)).collect();
    lines.join("\n")
}

fn wrapped_line(line: &str, width: usize) -> String {
    if columns(line) <= width {
        return line.to_owned();
    }
    let own = line.len() - line.trim_start_matches(' ').len();
    let indent = " ".repeat((own + HANGING).min(width / 2));
    let mut wrapped = String::with_capacity(line.len() + indent.len());
    let mut taken = 0;
    // Runs of blanks inside of a line align columns and stay, except at a break.
    for word in line.split_inclusive(' ') {
        let needs = columns(word.trim_end_matches(' '));
        if taken + needs > width && !wrapped.trim().is_empty() {
            wrapped.truncate(wrapped.trim_end_matches(' ').len());
            wrapped.push('\n');
            wrapped.push_str(&indent);
            taken = indent.len();
        }
        wrapped.push_str(word);
        taken += columns(word);
    }
    wrapped
}

/// Returns the characters of a text without the markers of [`paint`](super::paint).
fn columns(text: &str) -> usize {
    text.chars().filter(|c| !('\u{fdd0}'..='\u{fdd4}').contains(c)).count()
}

#[cfg(test)]
mod tests {
    use super::super::paint::{Tone, paint};
    use super::*;

    #[test]
    fn lines_break_between_words_and_continue_indented() {
        let line = format!(
            "  {} the server github cannot start, because its program is missing",
            paint(Tone::Bad, "bad")
        );
        let text = wrapped(&format!("short\n{line}"), 40);
        let lines: Vec<_> = text.lines().map(|line| line.replace(|c: char| c > '\u{fd00}', "")).collect();
        assert_eq!(
            lines,
            ["short", "  bad the server github cannot start,", "      because its program is missing",]
        );
        assert_eq!(text.split_whitespace().count(), line.split_whitespace().count() + 1, "no word is lost");
    }

    #[test]
    fn a_long_word_stays_whole_and_a_narrow_terminal_changes_nothing() {
        let path = "x".repeat(100);
        assert_eq!(wrapped(&path, 60), path);
        assert_eq!(wrapped(&format!("see {path} there"), 60), format!("see\n    {path}\n    there"));
        assert_eq!(wrapped("one two three", 5), "one two three");
    }
}
