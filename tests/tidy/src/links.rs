//! Links of Markdown pages: relative ones lead to a file or folder of the checkout, and to a heading that
//! exists.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

use crate::{Finding, Repository};

/// Resolves `link` from the folder of `page`, without touching the disk.
fn resolve(page: &str, link: &str) -> PathBuf {
    let mut path = Path::new(page).parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    path
}

/// Returns the targets of `[text](target)` in a line, outside of code spans.
fn targets(line: &str) -> Vec<&str> {
    let outside_code = line.split('`').step_by(2);
    let mut targets = Vec::new();
    for part in outside_code.flat_map(|text| text.split("](").skip(1)) {
        if let Some(target) = part.split(')').next() {
            targets.push(target);
        }
    }
    targets
}

/// The anchor that code hosts make of a heading: lower case, spaces to dashes, punctuation dropped.
fn anchor(heading: &str) -> String {
    heading
        .trim()
        .chars()
        .filter_map(|c| match c {
            ' ' | '-' => Some('-'),
            '_' => Some('_'),
            c if c.is_alphanumeric() => Some(c.to_ascii_lowercase()),
            _ => None,
        })
        .collect()
}

/// Returns the anchors of a page: its headings, outside of code blocks.
fn anchors(text: &str) -> HashSet<String> {
    let mut in_code = false;
    let mut anchors = HashSet::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code && line.starts_with('#') {
            let base = anchor(line.trim_start_matches('#'));
            let mut candidate = base.clone();
            let mut repeated = 0;
            while !anchors.insert(candidate.clone()) {
                repeated += 1;
                candidate = format!("{base}-{repeated}");
            }
        }
    }
    anchors
}

/// Returns each relative link that leads to no file, or to no heading of the page it names.
pub(crate) fn lead_somewhere(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for page in repository.files.iter().filter(|file| file.ends_in(&[".md"])) {
        let mut in_code = false;
        for (number, line) in page.text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                in_code = !in_code;
            }
            if in_code {
                continue;
            }
            for target in targets(line) {
                if target.contains("://") || target.starts_with("mailto:") {
                    continue;
                }
                let (file, heading) = target.split_once('#').unwrap_or((target, ""));
                let path =
                    if file.is_empty() { PathBuf::from(&page.path) } else { resolve(&page.path, file) };
                let text = repository.files.iter().find(|file| Path::new(&file.path) == path);
                let is_broken = !repository.root.join(&path).exists()
                    || (!heading.is_empty()
                        && text.is_some_and(|file| {
                            file.ends_in(&[".md"]) && !anchors(&file.text).contains(heading)
                        }));
                if is_broken {
                    let message = format!("link leads nowhere: {target}");
                    findings.push(Finding { path: page.path.clone(), line: number + 1, message });
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_found_outside_of_code() {
        assert_eq!(targets("see [a](x.md) and [b](../y.md#z), not `[c](d)`"), ["x.md", "../y.md#z"]);
        assert_eq!(resolve("docs/user/guide.md", "../search.md"), Path::new("docs/search.md"));
    }

    #[test]
    fn anchors_are_those_of_code_hosts() {
        assert_eq!(anchor(" Measure on your own catalog"), "measure-on-your-own-catalog");
        assert_eq!(anchor(" `vmcp serve`: both"), "vmcp-serve-both");
        assert_eq!(anchors("# A\n# A\n"), HashSet::from(["a".to_owned(), "a-1".to_owned()]));
    }
}
