//! Summaries of sessions in Markdown, made of a transcript without a model: prompts, tools, files, last
//! words.

use std::fmt::Write as _;

use crate::transcript::TranscriptDigest;

/// Most bytes of a summary; a longer one is cut.
pub const MAX_BYTES: usize = 16 * 1024;

/// Returns the summary of a transcript; `None` if nothing can be read in it.
pub fn of_transcript(transcript: &str) -> Option<String> {
    let digest = TranscriptDigest::read(transcript);
    if digest == TranscriptDigest::default() {
        return None;
    }
    let mut text = String::from("# Summary of the session\n");
    if let Some(first) = &digest.first_prompt {
        section(&mut text, "Task", [first.as_str()]);
    }
    let later = digest.prompts.iter().filter(|prompt| Some(*prompt) != digest.first_prompt.as_ref());
    section(&mut text, "Last prompts", later.map(String::as_str));
    let tools: Vec<_> = digest.tools.iter().map(|(name, calls)| format!("{name}: {calls}")).collect();
    section(&mut text, "Tools used", tools.iter().map(String::as_str));
    section(&mut text, "Files", digest.files.iter().map(String::as_str));
    section(&mut text, "Last answer", digest.last_answer.iter().map(String::as_str));
    Some(cut(text))
}

/// Returns the summary that a client made itself, cut; `None` if it is blank.
pub fn of_client(summary: &str) -> Option<String> {
    let summary = summary.trim();
    (!summary.is_empty()).then(|| cut(summary.to_owned()))
}

fn section<'a>(text: &mut String, heading: &str, lines: impl IntoIterator<Item = &'a str>) {
    for (index, line) in lines.into_iter().enumerate() {
        if index == 0 {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "\n## {heading}\n");
        }
        let _ = writeln!(text, "- {line}");
    }
}

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_BYTES));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_turns_make_a_summary() {
        let mut lines = String::new();
        for turn in 1..=5 {
            writeln!(lines, "{{\"role\":\"user\",\"content\":\"prompt {turn}\"}}").unwrap();
            lines += "{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"name\":\"Edit\",\"input\":{\"file_path\":\"a.rs\"}}]}\n";
        }
        let expected = "# Summary of the session\n\n## Task\n\n- prompt 1\n\n## Last prompts\n\n- prompt 2\n- prompt 3\n- prompt 4\n- prompt 5\n\n## Tools used\n\n- Edit: 5\n\n## Files\n\n- a.rs\n";
        assert_eq!(of_transcript(&lines).as_deref(), Some(expected));
    }

    #[test]
    fn nothing_makes_none_and_much_is_cut() {
        assert_eq!(of_transcript("   \n"), None);
        assert_eq!(of_client(" \n"), None);
        let long = of_client(&"é".repeat(MAX_BYTES)).unwrap();
        assert_eq!(long.len(), MAX_BYTES);
    }
}
