//! Commands of a documentation page, in the order in which a reader types them.

use std::path::Path;

/// A command of a page, and the lines that the page shows below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageCommand {
    /// The command, with its continuation lines and here-documents, without the comment behind it.
    pub text: String,
    /// The output as the page has it; `…` stands for anything.
    pub shown: Vec<String>,
}

/// Reads the `console` blocks of a page of this repository, by path from its root.
pub fn page_commands(page: &str) -> Vec<PageCommand> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    let text = std::fs::read_to_string(path).expect("the page");
    commands(&text)
}

fn commands(text: &str) -> Vec<PageCommand> {
    let mut commands: Vec<PageCommand> = Vec::new();
    let (mut inside, mut here) = (false, None::<String>);
    for line in text.lines() {
        let open = || here.is_some();
        if line.starts_with("```") && !open() {
            inside = line == "```console";
        } else if !inside {
        } else if let Some(end) = &here {
            let command = commands.last_mut().expect("a command");
            command.text.extend(["\n", line]);
            if line == end {
                here = None;
            }
        } else if let Some(typed) = line.strip_prefix("$ ") {
            here = typed.split_once("<<'").and_then(|(_, end)| Some(end.split_once('\'')?.0.to_owned()));
            let typed = typed.split_once("  #").map_or(typed, |(typed, _)| typed);
            commands.push(PageCommand { text: typed.trim_end().to_owned(), shown: Vec::new() });
        } else if let Some(command) = commands.last_mut() {
            if command.text.ends_with('\\') {
                command.text.extend(["\n", line]);
            } else {
                command.shown.push(line.to_owned());
            }
        }
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_its_continuation_and_its_output() {
        let page = "text\n```console\n$ cat > a <<'X' && b\n$ no\nX\n$ vmcp find a \\\n    b   # why\nshown\n```\n```yaml\n$ no: 1\n```\n";
        let found = commands(page);
        let texts: Vec<_> = found.iter().map(|command| command.text.as_str()).collect();
        assert_eq!(texts, ["cat > a <<'X' && b\n$ no\nX", "vmcp find a \\\n    b   # why"]);
        assert_eq!(found[1].shown, ["shown"]);
    }
}
