//! Rules about the tools of a backend, `aggregation.tools`, in a text: they go with the backend.

use super::lines::{blanks, comments_above, end_of_entry, joined};
use crate::document::{Content, Node, parse};
use crate::problems::Report;

/// Returns the text without the rules about a backend. Rules in flow style stay.
pub(super) fn without_rules(mut text: String, backend: &str) -> String {
    while let Some(edited) = without_rule(&text, backend) {
        text = edited;
    }
    text
}

/// Returns the text without the first rule about a backend, and the comments directly above it.
fn without_rule(text: &str, backend: &str) -> Option<String> {
    let root = parse(text, &mut Report::default())?;
    let (_, aggregation) = entry(&root, "aggregation")?;
    let (key, tools) = entry(aggregation, "tools")?;
    let Content::List(rules) = &tools.content else { return None };
    let is_about = |rule: &&Node| {
        entry(rule, "workload")
            .is_some_and(|(_, name)| matches!(&name.content, Content::Text(name) if name == backend))
    };
    let start = index(rules.iter().find(is_about)?.line)?;
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.get(start)?;
    let indent = blanks(first);
    first.trim_start().starts_with("- ").then_some(())?;
    let above = comments_above(&lines, start, indent);
    let mut edited: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    edited.drain(start - above..end_of_entry(&lines, start, indent));
    if rules.len() == 1 {
        let line = edited.get_mut(index(key)?)?;
        line.trim_start().starts_with("tools:").then_some(())?;
        *line = format!("{}tools: []", " ".repeat(blanks(line)));
    }
    Some(joined(&edited))
}

/// Returns the line of a key, from 1, and its value.
fn entry<'a>(node: &'a Node, key: &str) -> Option<(u32, &'a Node)> {
    let Content::Map(entries) = &node.content else { return None };
    entries.iter().find(|(name, _, _)| name == key).map(|(_, line, value)| (*line, value))
}

fn index(line: u32) -> Option<usize> {
    usize::try_from(line).ok()?.checked_sub(1)
}
