//! Titles of sessions: the first six significant words of a prompt.

/// Words of a title.
const MAX_WORDS: usize = 6;
/// Characters of a title; a longer one is cut.
const MAX_CHARS: usize = 80;
/// Words that say nothing about the task.
const STOP_WORDS: [&str; 42] = [
    "a", "an", "and", "are", "as", "at", "be", "can", "could", "do", "for", "from", "have", "hello", "help",
    "hey", "hi", "how", "i", "in", "is", "it", "let's", "me", "my", "of", "on", "our", "please", "so",
    "that", "the", "this", "to", "us", "want", "we", "with", "would", "you", "your", "need",
];

/// Returns the title that a prompt makes; `None` for a command of the client, and for a prompt without words.
pub fn of_prompt(prompt: &str) -> Option<String> {
    let prompt = prompt.trim();
    let is_command = prompt.strip_prefix('/').is_some_and(|rest| {
        let word = rest.split_whitespace().next().unwrap_or_default();
        word.starts_with(|c: char| c.is_ascii_alphabetic()) && !word.contains('/')
    });
    if is_command {
        return None;
    }
    let words = || prompt.split_whitespace().map(trimmed).filter(|word| !word.is_empty());
    let is_significant = |word: &&str| !STOP_WORDS.contains(&word.to_lowercase().as_str());
    let mut title: Vec<&str> = words().filter(is_significant).take(MAX_WORDS).collect();
    if title.is_empty() {
        title = words().take(MAX_WORDS).collect();
    }
    let title: String = title.join(" ").chars().take(MAX_CHARS).collect();
    let mut letters = title.chars();
    let first = letters.next()?;
    Some(first.to_uppercase().chain(letters).collect())
}

/// Returns a word without the marks around it. Control characters are dropped with the word that has them.
fn trimmed(word: &str) -> &str {
    if word.chars().any(char::is_control) {
        return "";
    }
    word.trim_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '/' | '.' | '_' | '#' | '@'))
        .trim_end_matches(['.', '#', '@'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_has_the_significant_words() {
        for (prompt, title) in [
            ("Help me refactor auth", Some("Refactor auth")),
            ("please, can you fix the flaky test in `src/login.rs`?", Some("Fix flaky test src/login.rs")),
            ("one two three four five six seven", Some("One two three four five six")),
            ("can you help me", Some("Can you help me")),
            ("/compact keep the plan", None),
            ("/etc/hosts is wrong", Some("/etc/hosts wrong")),
            ("  ", None),
            ("?!", None),
            ("ändere die Größe", Some("Ändere die Größe")),
        ] {
            assert_eq!(of_prompt(prompt).as_deref(), title, "{prompt}");
        }
        assert_eq!(of_prompt(&"x".repeat(5000)).unwrap().chars().count(), MAX_CHARS);
        assert_eq!(of_prompt("red \u{1b}[31m alert").as_deref(), Some("Red alert"));
    }
}
