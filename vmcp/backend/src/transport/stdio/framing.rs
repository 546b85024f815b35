//! [`Framing`]: finds messages in the lines of a program's standard output.
//!
//! The specification wants one message a line, and nothing else. Programs in the field write more: a byte
//! order mark, escape codes of a terminal, text before a message without a line break between, a message over
//! several lines. Lines that are one message never come here.

use serde_json::value::RawValue;
use vmcp_wire::envelope::Message;

use crate::transport::link_error::without_escapes;

/// Places in one line at which a message may begin behind a text; further ones are not tried.
const MAX_BEGINNINGS: usize = 16;

/// A part of a program's output.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// A JSON object or a list of them.
    Message(Vec<u8>),
    /// A JSON-RPC answer or notification behind other text in its line. A request there is a log line: it
    /// would be answered, though the program never asked.
    Aside(Vec<u8>),
    /// Text that is not a message.
    Stray(String),
}

/// A message over several lines, as far as it came.
#[derive(Debug, Default)]
struct OpenMessage {
    text: String,
    depth: Depth,
}

/// Nesting of JSON, read incrementally.
#[derive(Debug, Default)]
struct Depth {
    levels: u32,
    in_string: bool,
    is_escaped: bool,
}

impl Depth {
    fn read(&mut self, text: &str) {
        for byte in text.bytes() {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.in_string => self.is_escaped = true,
                b'"' => self.in_string = !self.in_string,
                b'{' | b'[' if !self.in_string => self.levels = self.levels.saturating_add(1),
                b'}' | b']' if !self.in_string => self.levels = self.levels.saturating_sub(1),
                _ => {}
            }
        }
    }
}

/// Puts the lines of a message together.
#[derive(Debug)]
pub(super) struct Framing {
    open: Option<OpenMessage>,
    /// Most bytes of a message.
    limit: usize,
}

impl Framing {
    pub(super) fn new(limit: usize) -> Self {
        Self { open: None, limit }
    }

    /// True if a message has begun and not ended.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Reads one line, without its end; returns what it, or the message that it ends, holds.
    pub(super) fn line(&mut self, line: &[u8]) -> Vec<Output> {
        let text = String::from_utf8_lossy(line);
        let text = &*printable(&text);
        let text = text.trim();
        if text.is_empty() {
            return Vec::new();
        }
        let Some(mut open) = self.open.take() else { return self.begin(text) };
        // A whole message by itself is an element of a list, which need not wait for the list's end; else
        // the bytes before it were not a message.
        let is_list = open.text.starts_with('[');
        let whole = if is_list { text.trim_matches([',', ' ']) } else { text };
        if Message::parse(whole.as_bytes()).is_ok() {
            let message = Output::Message(whole.as_bytes().to_vec());
            if is_list {
                self.open = Some(open);
                return vec![message];
            }
            return vec![Output::Stray(open.text), message];
        }
        if open.text.len() + text.len() >= self.limit {
            return vec![Output::Stray(open.text), Output::Stray(text.to_owned())];
        }
        open.text.push('\n');
        open.text.push_str(text);
        open.depth.read(text);
        if open.depth.levels > 0 || open.depth.in_string {
            self.open = Some(open);
            return Vec::new();
        }
        let text = open.text;
        if is_list && text.bytes().all(|byte| b"[]\n, ".contains(&byte)) {
            return Vec::new();
        }
        let is_json = serde_json::from_str::<&RawValue>(&text).is_ok();
        vec![if is_json { Output::Message(text.into_bytes()) } else { Output::Stray(text) }]
    }

    /// Reads a line outside of a message.
    fn begin(&mut self, text: &str) -> Vec<Output> {
        let mut found = Vec::new();
        let mut rest = text;
        let mut aside = false;
        for _ in 0..MAX_BEGINNINGS {
            let Some(at) = rest.find(['{', '[']) else { break };
            let (before, candidate) = rest.split_at(at);
            aside |= before.contains(char::is_alphanumeric);
            let mut values = serde_json::Deserializer::from_str(candidate).into_iter::<&RawValue>();
            match values.next() {
                Some(Ok(value)) => {
                    let message = value.get().as_bytes().to_vec();
                    if !aside {
                        found.push(Output::Message(message));
                    } else if is_aside(&message) {
                        found.push(Output::Aside(message));
                    }
                    rest = candidate.get(value.get().len()..).unwrap_or_default();
                    continue;
                }
                Some(Err(error)) if error.is_eof() && may_go_on(candidate) && !aside => {
                    let mut open = OpenMessage { text: candidate.to_owned(), depth: Depth::default() };
                    open.depth.read(candidate);
                    self.open = Some(open);
                    return found;
                }
                _ => {}
            }
            aside = true;
            rest = candidate.get(1..).unwrap_or_default();
        }
        if found.is_empty() {
            found.push(Output::Stray(text.to_owned()));
        }
        found
    }
}

/// True if a text may be the first line of a message: an object, or a list of objects.
fn may_go_on(text: &str) -> bool {
    let inner = text.strip_prefix('[').map_or(text, str::trim_start);
    inner.is_empty() || (inner.starts_with('{') && inner.get(1..).is_some_and(begins_with_key))
}

/// True if a text may be the inside of an object.
fn begins_with_key(text: &str) -> bool {
    let text = text.trim_start();
    text.is_empty() || text.starts_with(['"', '}'])
}

fn is_aside(message: &[u8]) -> bool {
    matches!(Message::parse(message), Ok(Message::Response(_) | Message::Error(_) | Message::Notification(_)))
}

/// Returns the text without a byte order mark, escape sequences and control characters.
fn printable(text: &str) -> std::borrow::Cow<'_, str> {
    let is_odd = |c: char| c == '\u{feff}' || (c.is_control() && !matches!(c, '\t' | '\r' | '\n'));
    if !text.contains(is_odd) {
        return text.into();
    }
    without_escapes(text).replace(is_odd, "").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"a":"{"}}"#;
    const ASK: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#;

    /// Returns the messages in the lines of a text.
    fn messages(text: &str) -> Vec<String> {
        let mut framing = Framing::new(1000);
        let output = text.lines().flat_map(|line| framing.line(line.as_bytes()));
        let message = |output| match output {
            Output::Message(bytes) | Output::Aside(bytes) => Some(String::from_utf8(bytes).unwrap()),
            Output::Stray(_) => None,
        };
        output.collect::<Vec<_>>().into_iter().filter_map(message).collect()
    }

    #[test]
    fn a_message_is_found_behind_marks_escapes_and_text() {
        for text in [
            format!("\u{feff}{ANSWER}"),
            format!("\u{1b}[2J\u{1b}[H\u{1b}]0;my server\u{7}{ANSWER}\u{1b}[0m"),
            format!("\0\u{8}{ANSWER}"),
            format!("> {ANSWER}"),
            format!("Server ready on stdio{ANSWER}"),
            format!("[INFO] {{debug: true}} sent {ANSWER} done"),
            format!("Content-Length: 44{ANSWER}Content-Length: 50"),
        ] {
            assert_eq!(messages(&text), [ANSWER], "{text}");
        }
        assert_eq!(messages(&format!("{ANSWER}{ANSWER} {ASK}")), [ANSWER, ANSWER, ASK]);
    }

    #[test]
    fn a_request_behind_text_is_a_log_line() {
        assert!(messages(&format!("received: {ASK}")).is_empty());
        assert!(messages(r#"config {"port": 3000}"#).is_empty());
        assert_eq!(messages(&format!("\u{1b}[0m{ASK}")), [ASK]);
    }

    #[test]
    fn a_message_may_have_several_lines() {
        let pretty =
            "{\n  \"jsonrpc\": \"2.0\",\n\n  \"id\": 1,\n  \"result\": {\n    \"a\": \"}{\\\"\"\n  }\n}";
        let [message] = &*messages(pretty) else { panic!("one message") };
        let read: serde_json::Value = serde_json::from_str(message).unwrap();
        assert_eq!(read["result"]["a"], "}{\"");
        let batch = format!("[\n  {ANSWER},\n  {ANSWER}\n]");
        assert_eq!(messages(&batch), [ANSWER, ANSWER]);
        let [message] = &*messages("[\n{\n\"id\": 1\n},\n{}]") else { panic!("one batch") };
        assert_eq!(vmcp_wire::payload::batch(message.as_bytes()).unwrap().len(), 2);
    }

    #[test]
    fn what_looks_like_a_beginning_swallows_no_message() {
        for noise in
            ["{", "{ name: 'x',", "{\"a\":1,", "{\"a\":", "{\"open", "[2026-11-26 10:00:00] started", "["]
        {
            let lines = format!("{noise}\n{ANSWER}");
            assert_eq!(messages(&lines), [ANSWER], "{noise}");
        }
        let closed = format!("{{\n  \"note\": 1\n}}\n{ANSWER}");
        assert_eq!(messages(&closed).last().map(String::as_str), Some(ANSWER));
    }

    #[test]
    fn a_message_without_an_end_is_given_up_at_the_limit() {
        let mut framing = Framing::new(100);
        assert!(framing.line(b"{").is_empty() && framing.is_open());
        let given_up = (0..100).any(|_| !framing.line(b"\"key\": \"value\",").is_empty());
        assert!(given_up && !framing.is_open());
        assert_eq!(framing.line(ANSWER.as_bytes()), [Output::Message(ANSWER.as_bytes().to_vec())]);
    }
}
