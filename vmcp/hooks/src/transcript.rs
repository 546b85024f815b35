//! [`TranscriptDigest`]: prompts, tools and files of a transcript. Reads a JSON message a line, as Claude
//! Code and Codex write them and as models' APIs have them, and plain text with `User:` and `Assistant:`.

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;

/// Bytes of a line; longer ones, which hold answers of tools, are passed over.
const MAX_LINE_BYTES: usize = 256 * 1024;
/// Prompts that are kept: the latest.
const MAX_PROMPTS: usize = 5;
/// Characters of a kept text; a longer one is cut.
const MAX_TEXT_CHARS: usize = 500;
/// Different tools that are counted; further ones are left out.
const MAX_TOOLS: usize = 30;
/// Files that are kept: the latest.
const MAX_FILES: usize = 20;
/// Characters of a file's path; a longer one is left out.
const MAX_PATH_CHARS: usize = 300;
/// Arguments of tools that name a file.
const FILE_ARGUMENTS: [&str; 4] = ["file_path", "notebook_path", "path", "file"];
/// Words before a person's and the agent's lines in plain text.
const PERSON: [&str; 3] = ["user:", "human:", "prompt:"];
const AGENT: [&str; 4] = ["assistant:", "agent:", "claude:", "codex:"];

/// The parts of a transcript that a summary is made of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TranscriptDigest {
    /// The first prompt.
    pub first_prompt: Option<String>,
    /// The latest prompts, oldest first.
    pub prompts: VecDeque<String>,
    /// Calls of each tool.
    pub tools: BTreeMap<String, usize>,
    /// The files that tools were given last, oldest first.
    pub files: VecDeque<String>,
    /// The agent's last words.
    pub last_answer: Option<String>,
}

impl TranscriptDigest {
    /// Reads a transcript. Lines that say nothing are passed over.
    pub fn read(transcript: &str) -> TranscriptDigest {
        let mut digest = TranscriptDigest::default();
        for line in transcript.lines().map(str::trim).filter(|line| line.len() <= MAX_LINE_BYTES) {
            match line.starts_with('{').then(|| serde_json::from_str::<Value>(line)) {
                Some(Ok(entry)) => digest.add_entry(&entry),
                _ => digest.add_line(line),
            }
        }
        let has_messages = transcript.lines().any(|line| line.trim_start().starts_with('{'));
        if digest == TranscriptDigest::default() && !has_messages {
            // A text without roles: its end says where the work stands.
            let end = transcript.trim_end();
            let from = end.ceil_char_boundary(end.len().saturating_sub(MAX_TEXT_CHARS));
            digest.add_answer(end.get(from..).unwrap_or_default());
        }
        digest
    }

    fn add_line(&mut self, line: &str) {
        let after = |words: &[&str]| {
            words.iter().find_map(|word| {
                let (before, rest) = line.split_at_checked(word.len())?;
                before.eq_ignore_ascii_case(word).then(|| rest.to_owned())
            })
        };
        if let Some(prompt) = after(&PERSON) {
            self.add_prompt(&prompt);
        } else if let Some(answer) = after(&AGENT) {
            self.add_answer(&answer);
        }
    }

    /// Adds an entry: `{type, message: {role, content}}` of Claude Code, `{type, payload}` of Codex, or a
    /// message itself.
    fn add_entry(&mut self, entry: &Value) {
        let is_meta = |name| entry.get(name).and_then(Value::as_bool).unwrap_or_default();
        if is_meta("isMeta") || is_meta("isSidechain") {
            return;
        }
        let message = entry.get("message").filter(|message| message.is_object());
        let message = message.or_else(|| entry.get("payload").filter(|_| entry["type"] == "response_item"));
        let message = message.unwrap_or(entry);
        if message["type"].as_str().is_some_and(is_call) {
            return self.add_call(message);
        }
        let Some(role) = message["role"].as_str().or(entry["type"].as_str()) else { return };
        match &message["content"] {
            Value::String(text) => self.add_text(role, text),
            Value::Array(blocks) => {
                for block in blocks {
                    match block["type"].as_str() {
                        Some("text" | "input_text" | "output_text") => {
                            self.add_text(role, block["text"].as_str().unwrap_or_default());
                        }
                        Some(kind) if is_call(kind) => self.add_call(block),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    fn add_text(&mut self, role: &str, text: &str) {
        match role {
            "user" | "human" => self.add_prompt(text),
            "assistant" => self.add_answer(text),
            _ => {}
        }
    }

    fn add_prompt(&mut self, text: &str) {
        // Clients wrap what they add themselves in tags, such as `<environment_context>`.
        let Some(text) = kept(text).filter(|text| !text.starts_with('<')) else { return };
        if self.prompts.back() == Some(&text) {
            return;
        }
        self.first_prompt.get_or_insert_with(|| text.clone());
        push(&mut self.prompts, text, MAX_PROMPTS);
    }

    fn add_answer(&mut self, text: &str) {
        if let Some(text) = kept(text) {
            self.last_answer = Some(text);
        }
    }

    fn add_call(&mut self, call: &Value) {
        let Some(name) = call["name"].as_str().and_then(kept) else { return };
        if self.tools.len() < MAX_TOOLS || self.tools.contains_key(&name) {
            *self.tools.entry(name).or_default() += 1;
        }
        let written = call["arguments"].as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let arguments = written.as_ref().or(call.get("input"));
        for name in FILE_ARGUMENTS {
            let path = arguments.and_then(|arguments| arguments.get(name)?.as_str()).and_then(kept);
            if let Some(path) = path.filter(|path| path.chars().count() <= MAX_PATH_CHARS) {
                self.files.retain(|known| *known != path);
                push(&mut self.files, path, MAX_FILES);
            }
        }
    }
}

fn is_call(kind: &str) -> bool {
    matches!(kind, "tool_use" | "function_call" | "custom_tool_call" | "mcp_tool_call")
}

/// Returns the words of a text in one line, cut, without control characters; `None` if it has none.
fn kept(text: &str) -> Option<String> {
    // Cut first: a text may have megabytes.
    let begin = text.trim_start();
    let begin = begin.get(..begin.floor_char_boundary(8 * MAX_TEXT_CHARS)).unwrap_or_default();
    let line = begin.split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = line.chars().filter(|c| !c.is_control()).take(MAX_TEXT_CHARS).collect();
    Some(line).filter(|line| !line.is_empty())
}

fn push(list: &mut VecDeque<String>, text: String, most: usize) {
    list.push_back(text);
    if list.len() > most {
        list.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn the_lines_of_claude_code_are_read() {
        let lines = r#"{"type":"summary","summary":"x"}
{"type":"user","message":{"role":"user","content":"Refactor auth"},"uuid":"1"}
{"type":"user","isMeta":true,"message":{"role":"user","content":"caveat"}}
{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_use","name":"Edit","input":{"file_path":"/p/auth.rs"}}]}}
{"type":"user","message":{"role":"user","content":[{"type":"tool_result","content":"ok"}]}}
{"type":"user","message":{"role":"user","content":[{"type":"text","text":"<system-reminder>x</system-reminder>"}]}}
{broken
{"type":"assistant","message":{"role":"assistant","content":[{"type":"tool_use","name":"Edit","input":{"file_path":"/p/auth.rs"}},{"type":"text","text":"Done."}]}}"#;
        let digest = TranscriptDigest::read(lines);
        assert_eq!(digest.prompts, ["Refactor auth"]);
        assert_eq!(digest.tools, BTreeMap::from([("Edit".to_owned(), 2)]));
        assert_eq!(
            (digest.files, digest.last_answer.as_deref()),
            (["/p/auth.rs".to_owned()].into(), Some("Done."))
        );
    }

    #[test]
    fn the_lines_of_codex_are_read() {
        let lines = r#"{"timestamp":"t","type":"session_meta","payload":{"id":"1"}}
{"timestamp":"t","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>"}]}}
{"timestamp":"t","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"Fix it"}]}}
{"timestamp":"t","type":"event_msg","payload":{"type":"user_message","message":"Fix it"}}
{"timestamp":"t","type":"response_item","payload":{"type":"function_call","name":"read_file","arguments":"{\"path\":\"a.rs\"}"}}
{"timestamp":"t","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Fixed."}]}}"#;
        let digest = TranscriptDigest::read(lines);
        assert_eq!((digest.prompts.len(), digest.prompts[0].as_str()), (1, "Fix it"));
        assert_eq!((digest.files.len(), digest.tools["read_file"]), (1, 1));
        assert_eq!(digest.last_answer.as_deref(), Some("Fixed."));
    }

    #[test]
    fn plain_text_is_read_and_everything_is_bounded() {
        let mut text = String::from("User: first\nthinking\nASSISTANT: sure\n");
        for turn in 0..100 {
            writeln!(text, "Human: {turn} {}", "é ".repeat(5000)).unwrap();
        }
        let digest = TranscriptDigest::read(&text);
        assert_eq!((digest.first_prompt.as_deref(), digest.prompts.len()), (Some("first"), MAX_PROMPTS));
        assert!(digest.prompts.iter().all(|prompt| prompt.chars().count() <= MAX_TEXT_CHARS));
        assert_eq!(digest.last_answer.as_deref(), Some("sure"));
        let call = |n: usize| {
            format!(
                r#"{{"role":"assistant","content":[{{"type":"tool_use","name":"t{n}","input":{{"path":"f{n}"}}}}]}}"#
            )
        };
        let many: Vec<_> = (0..1000).map(call).collect();
        let digest = TranscriptDigest::read(&many.join("\n"));
        assert_eq!((digest.tools.len(), digest.files.len()), (MAX_TOOLS, MAX_FILES));
        let notes = format!("{}the tests pass", "é".repeat(2000));
        let end = TranscriptDigest::read(&notes).last_answer.unwrap();
        assert!(end.ends_with("the tests pass") && end.len() <= MAX_TEXT_CHARS, "{end}");
        assert_eq!(TranscriptDigest::read("{\"type\":\"summary\"}"), TranscriptDigest::default());
    }
}
