//! Links of Markdown pages: relative ones lead to a file or folder of the checkout, and to a heading that
//! exists.

use std::path::{Component, Path, PathBuf};

use super::markdown::{headings, prose};
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

/// Returns each relative link that leads to no file, or to no heading of the page it names.
pub(crate) fn lead_somewhere(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for page in repository.files.iter().filter(|file| file.ends_in(&[".md"])) {
        for (line, text) in prose(&page.text) {
            for target in targets(text) {
                if target.contains("://") || target.starts_with("mailto:") {
                    continue;
                }
                let (file, heading) = target.split_once('#').unwrap_or((target, ""));
                let path =
                    if file.is_empty() { PathBuf::from(&page.path) } else { resolve(&page.path, file) };
                let linked = repository.files.iter().find(|file| Path::new(&file.path) == path);
                let lacks_heading = |text: &str| !headings(text).iter().any(|found| found.anchor == heading);
                let is_broken = !repository.root.join(&path).exists()
                    || (!heading.is_empty()
                        && linked.is_some_and(|file| file.ends_in(&[".md"]) && lacks_heading(&file.text)));
                if is_broken {
                    let message = format!("link leads nowhere: {target}");
                    findings.push(Finding { path: page.path.clone(), line, message });
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
}
