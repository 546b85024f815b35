//! Consent to a call that `aggregation.confirm` holds back: asked at the terminal, or given by `--yes`.

use serde_json::{Map, Value};

use crate::cli::console::failure::CommandFailure;
use crate::cli::console::{notes, prompt};

/// Most arguments that the question shows; the others are counted.
const MAX_SHOWN_ARGUMENTS: usize = 64;
/// Most characters of an argument's value that the question shows.
const MAX_SHOWN_CHARACTERS: usize = 200;

/// Returns true if the call was refused because it lacks consent; nothing was sent to the backend.
pub(super) fn is_missing(result: &Value) -> bool {
    result.pointer("/structuredContent/error_type").and_then(Value::as_str) == Some("NotConfirmed")
}

/// Obtains the person's consent to a refused call: by `--yes`, else by a question at the terminal.
pub(super) fn obtain(
    refused: &Value,
    arguments: &Map<String, Value>,
    yes: bool,
) -> Result<(), CommandFailure> {
    if yes {
        return Ok(());
    }
    let subject = subject(refused);
    if !prompt::is_possible() {
        return Err(without_terminal(&subject));
    }
    notes::note(&question(&subject, arguments));
    let answer = prompt::ask("Call it? [y/N]")?;
    if accepts(&answer) { Ok(()) } else { Err(CommandFailure::new("not called: you declined")) }
}

fn without_terminal(subject: &str) -> CommandFailure {
    CommandFailure::new(format!(
        "not called: `aggregation.confirm` holds back {subject}, and there is no terminal to ask at"
    ))
    .remedy("check the arguments, then add --yes")
}

/// Returns the tool and its server, as the refusal names them.
fn subject(refused: &Value) -> String {
    let of = |key: &str| refused.pointer(&format!("/structuredContent/{key}")).and_then(Value::as_str);
    format!("{} (server {})", of("tool").unwrap_or("this tool"), of("server").unwrap_or("unknown"))
}

fn question(subject: &str, arguments: &Map<String, Value>) -> String {
    if arguments.is_empty() {
        return format!("`aggregation.confirm` holds back {subject}, called without arguments.");
    }
    let mut lines = vec![format!("`aggregation.confirm` holds back {subject}, called with:")];
    lines.extend(arguments.iter().take(MAX_SHOWN_ARGUMENTS).map(|(name, value)| {
        let value = value.to_string();
        match value.char_indices().nth(MAX_SHOWN_CHARACTERS) {
            None => format!("  {name}: {value}"),
            Some((end, _)) => format!(
                "  {name}: {} … ({} characters)",
                value.get(..end).unwrap_or_default(),
                value.chars().count()
            ),
        }
    }));
    let more = arguments.len().saturating_sub(MAX_SHOWN_ARGUMENTS);
    if more > 0 {
        lines.push(format!("  and {}", notes::counted(more, "more argument")));
    }
    lines.join("\n")
}

fn accepts(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_a_missing_consent_is_asked_for() {
        let refused = |kind: &str| json!({"isError": true, "structuredContent": {"error_type": kind}});
        assert!(is_missing(&refused("NotConfirmed")));
        assert!(!is_missing(&refused("NotFound")) && !is_missing(&json!({"content": []})));
    }

    #[test]
    fn no_answer_is_a_no() {
        assert!(["y", "Yes\n", " YES "].iter().all(|answer| accepts(answer)));
        assert!(["", "\n", "n", "yep", "y y"].iter().all(|answer| !accepts(answer)));
    }

    #[test]
    fn the_question_shows_the_arguments_and_is_bounded() {
        let long = ("a".to_owned(), json!("é".repeat(1000)));
        let numbers = (0..80).map(|at| (format!("key{at:02}"), json!(at)));
        let arguments: Map<_, _> = std::iter::once(long).chain(numbers).collect();
        let question = question("drop (server shop)", &arguments);
        assert!(
            question.contains("drop (server shop)") && question.contains("(1002 characters)"),
            "{question}"
        );
        assert!(question.ends_with("and 17 more arguments") && question.len() < 2000, "{question}");
    }

    #[test]
    fn yes_needs_no_terminal_and_a_refusal_names_it() {
        let refused =
            json!({"structuredContent": {"error_type": "NotConfirmed", "tool": "drop", "server": "shop"}});
        assert!(obtain(&refused, &Map::new(), true).is_ok());
        assert_eq!(subject(&refused), "drop (server shop)");
        let failure = without_terminal(&subject(&refused));
        assert!(failure.message().contains("holds back drop (server shop)"), "{}", failure.message());
    }
}
