//! Lists of contents: a page that has one lists every section, in order.

use super::markdown::{headings, prose};
use crate::{Finding, Repository};

/// An entry of a list of contents.
#[derive(Debug, PartialEq, Eq)]
struct Entry<'a> {
    line: usize,
    text: &'a str,
    anchor: &'a str,
}

/// Returns the entry `- [text](#anchor)` of a line.
fn entry(line: usize, text: &str) -> Option<Entry<'_>> {
    let inner = text.trim_start().strip_prefix("- [")?.strip_suffix(')')?;
    let (text, anchor) = inner.split_once("](#")?;
    Some(Entry { line, text, anchor })
}

/// Returns each section that the list of contents of its page lacks, and each entry of a list that is not the
/// text of a section, in the order of the page. Sections are headings of the second level; a list may have
/// deeper ones as well.
pub(crate) fn list_every_heading(repository: &Repository) -> Vec<Finding> {
    let pages = repository.files.iter().filter(|file| file.ends_in(&[".md"]));
    pages.flat_map(|page| of_page(&page.path, &page.text)).collect()
}

fn of_page(path: &str, text: &str) -> Vec<Finding> {
    let headings = headings(text);
    let first_section = headings.iter().find(|heading| heading.level == 2).map_or(0, |heading| heading.line);
    let entries: Vec<_> = prose(text)
        .take_while(|(number, _)| *number < first_section)
        .filter_map(|(number, line)| entry(number, line))
        .collect();
    let mut findings = Vec::new();
    if entries.is_empty() {
        return findings;
    }
    let mut find = |line, message| findings.push(Finding { path: path.to_owned(), line, message });
    for heading in headings.iter().filter(|heading| heading.level == 2) {
        if !entries.iter().any(|entry| entry.anchor == heading.anchor) {
            find(heading.line, format!("the list of contents lacks {:?}", heading.text));
        }
    }
    let mut last = 0;
    for entry in entries {
        // Links that lead nowhere are a finding of their own.
        let Some(heading) = headings.iter().find(|heading| heading.anchor == entry.anchor) else { continue };
        if entry.text != heading.text {
            find(entry.line, format!("write {:?}, as the heading says", heading.text));
        }
        if heading.line < last {
            find(entry.line, format!("{:?} stands earlier in the page", entry.text));
        }
        last = heading.line;
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        of_page("page.md", text).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_list_has_every_section_in_order_under_its_name() {
        let page = "# T\n- [A](#a)\n- [B](#b)\n  - [C](#c)\n\n## A\n## B\n### C\n### D\n";
        assert_eq!(lines(page), []);
        assert_eq!(lines("# T\n- [A](#a)\n## A\n## B\n"), [4], "a section is missing");
        assert_eq!(lines("# T\n- [B](#b)\n- [A](#a)\n## A\n## B\n"), [3], "the order is another");
        assert_eq!(lines("# T\n- [An A](#a)\n## A\n"), [2], "the name is another");
    }

    #[test]
    fn a_page_without_a_list_needs_none() {
        assert_eq!(lines("# T\n## A\n- [A](#a)\n## B\n"), []);
    }
}
