//! Comments of a Rust file, block by block.

/// Consecutive comment lines of one kind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block<'a> {
    /// Line of the first one, counted from 1.
    pub(crate) line: usize,
    /// `//`, `///` or `//!`.
    pub(crate) marker: &'static str,
    /// Text of each line, without the marker and one space.
    pub(crate) lines: Vec<&'a str>,
}

/// Splits a line into its comment marker and its text; `None` for a line that is no comment.
fn split(line: &str) -> Option<(&'static str, &str)> {
    let line = line.trim_start();
    let marker = ["///", "//!", "//"].into_iter().find(|marker| line.starts_with(marker))?;
    let text = &line.get(marker.len()..)?;
    Some((marker, text.strip_prefix(' ').unwrap_or(text)))
}

/// Returns the comment blocks of `source`. Comments behind code on the same line are not among them.
pub(crate) fn blocks(source: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    let mut open = false;
    for (number, line) in source.lines().enumerate() {
        let Some((marker, text)) = split(line) else {
            open = false;
            continue;
        };
        match blocks.last_mut() {
            Some(block) if open && block.marker == marker => block.lines.push(text),
            _ => blocks.push(Block { line: number + 1, marker, lines: vec![text] }),
        }
        open = true;
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_ends_where_its_marker_does() {
        let source = "//! Tour.\n\n/// One.\n/// Two.\nfn f() {} // not this\n    // Why.\n";
        let found = blocks(source);
        assert_eq!(
            found.iter().map(|block| (block.line, block.marker, block.lines.len())).collect::<Vec<_>>(),
            [(1, "//!", 1), (3, "///", 2), (6, "//", 1)]
        );
    }
}
