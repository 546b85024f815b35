//! Layout: the top of the repository, the libraries below the product, and the size of folders: a reader
//! takes in about a dozen names at once.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Finding, Repository};

/// Rooms that one folder may hold. `name.rs` and `name/` are one room.
const MAX_SIBLINGS: usize = 13;

/// Lines that one file may have.
const MAX_LINES: usize = 500;

/// Names at the top of the repository. A newcomer reads this list first.
const TOP_LEVEL: [&str; 33] = [
    ".cargo",
    ".ci",
    ".dockerignore",
    ".github",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "Dockerfile",
    "Dockerfile.release",
    "LICENSE",
    "Makefile",
    "NOTICE",
    "README.md",
    "SECURITY.md",
    "changes",
    "charts",
    "clippy.toml",
    "crds",
    "deny.toml",
    "deploy",
    "docs",
    "examples",
    "fuzz",
    "operator",
    "packaging",
    "rustfmt.toml",
    "scripts",
    "tests",
    "vmcp",
];

/// Libraries that the product is built on.
const LIBRARIES: [&str; 10] = [
    "axum",
    "k8s-openapi",
    "kube",
    "opentelemetry",
    "reqwest",
    "rmcp",
    "rusqlite",
    "schemars",
    "tokio",
    "tracing-opentelemetry",
];

/// Returns folders with more than [`MAX_SIBLINGS`] rooms and files with more than [`MAX_LINES`] lines, in the
/// folders that hold the product. Scenarios of the tests and subcommands are lists by nature: each file *is*
/// its name.
pub(crate) fn folders(repository: &Repository) -> Vec<Finding> {
    let lists = ["vmcp/server/src/cli", "vmcp/bench/src"];
    let mut rooms: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut findings = Vec::new();
    for file in repository.rust().filter(|file| file.path.contains("/src/")) {
        let lines = file.text.lines().count();
        if lines > MAX_LINES {
            let message = format!("{lines} lines; split it below {MAX_LINES}");
            findings.push(Finding { path: file.path.clone(), line: 0, message });
        }
        if let Some((folder, name)) = file.path.rsplit_once('/') {
            rooms.entry(folder).or_default().insert(name.trim_end_matches(".rs"));
        }
        // A folder without a file of its name is a room as well.
        if let Some((parent, name)) =
            file.path.rsplit_once('/').and_then(|(folder, _)| folder.rsplit_once('/'))
            && parent.contains("/src")
        {
            rooms.entry(parent).or_default().insert(name);
        }
    }
    for (folder, names) in rooms {
        if names.len() > MAX_SIBLINGS && !lists.contains(&folder) {
            let message = format!("{} rooms in one folder; group them, {MAX_SIBLINGS} at most", names.len());
            findings.push(Finding { path: folder.to_owned(), line: 0, message });
        }
    }
    findings
}

/// Returns names that are new or missing at the top of the repository.
pub(crate) fn top_level(repository: &Repository) -> Vec<Finding> {
    let found: BTreeSet<_> = repository.files.iter().filter_map(|file| file.path.split('/').next()).collect();
    let expected = BTreeSet::from(TOP_LEVEL);
    let different = found.symmetric_difference(&expected).map(|name| {
        let message = if expected.contains(name) {
            "is missing at the top of the repository"
        } else {
            "is new at the top of the repository: move it into a folder, or add it to TOP_LEVEL"
        };
        Finding { path: (*name).to_owned(), line: 0, message: message.to_owned() }
    });
    different.collect()
}

/// Returns libraries of [`LIBRARIES`] that no crate of the product depends on outside of its tests.
pub(crate) fn libraries(repository: &Repository) -> Vec<Finding> {
    let is_product = |path: &str| {
        path.ends_with("/Cargo.toml")
            && !path.starts_with("vmcp/bench/")
            && ["crds/", "operator/", "vmcp/"].iter().any(|folder| path.starts_with(folder))
    };
    let manifests = repository.files.iter().filter(|file| is_product(&file.path));
    let used: BTreeSet<_> = manifests.flat_map(|file| dependencies(&file.text)).collect();
    let unused = LIBRARIES.into_iter().filter(|library| !used.contains(library));
    let finding = |library: &str| Finding {
        path: "Cargo.toml".to_owned(),
        line: 0,
        message: format!("no crate of the product depends on {library}"),
    };
    unused.map(finding).collect()
}

/// Returns the names in the section `[dependencies]` of a manifest.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let section = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    let section = section.take_while(|line| !line.starts_with('['));
    section.filter_map(|line| line.split(['.', '=', ' ']).next().filter(|name| !name.is_empty()))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::repository::SourceFile;

    fn repository(files: &[(&str, &str)]) -> Repository {
        let files = files
            .iter()
            .map(|(path, text)| SourceFile { path: (*path).to_owned(), text: (*text).to_owned() });
        Repository { root: PathBuf::new(), files: files.collect() }
    }

    #[test]
    fn a_name_that_is_new_or_missing_at_the_top_is_found() {
        let found = top_level(&repository(&[("vmcp/a.rs", ""), ("notes/b.md", "")]));
        assert_eq!(found.len(), TOP_LEVEL.len(), "{found:?}");
        let of = |name: &str| found.iter().find(|finding| finding.path == name);
        assert!(of("notes").is_some_and(|finding| finding.message.starts_with("is new")), "{found:?}");
        assert!(of("docs").is_some_and(|finding| finding.message.starts_with("is missing")), "{found:?}");
        assert!(of("vmcp").is_none(), "{found:?}");
    }

    #[test]
    fn a_library_counts_where_the_product_depends_on_it() {
        let manifest = "[package]\nname = \"kube\"\n\n[dependencies]\naxum = { workspace = true }\n\
                        tokio.workspace = true\n\n[dev-dependencies]\nreqwest.workspace = true\n";
        assert_eq!(dependencies(manifest).collect::<Vec<_>>(), ["axum", "tokio"]);
        let found = libraries(&repository(&[
            ("operator/Cargo.toml", manifest),
            ("tests/x/Cargo.toml", "[dependencies]\nkube = 1\n"),
        ]));
        let missing: Vec<_> = found.iter().filter_map(|finding| finding.message.rsplit(' ').next()).collect();
        assert_eq!(missing.len(), LIBRARIES.len() - 2, "{missing:?}");
        assert!(missing.contains(&"kube") && missing.contains(&"reqwest"), "{missing:?}");
    }
}
