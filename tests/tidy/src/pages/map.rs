//! ARCHITECTURE.md: its tables of crates and of layers are those of the tree, and it stays short.

use super::markdown::{cells, prose};
use crate::{Finding, Repository};

/// Path of the page.
const PAGE: &str = "ARCHITECTURE.md";

/// Bytes that the page may have: a map is read in ten minutes.
const MAX_BYTES: usize = 20_000;

/// Folder of the layers of the client port, below the crate that has it.
const LAYERS: &str = "/port/layers/";

/// A crate of the product: its name and its folder.
type Crate = (String, String);

/// Compares the tables of ARCHITECTURE.md with the workspace and with the folder of the layers.
pub(crate) fn is_of_the_tree(repository: &Repository) -> Vec<Finding> {
    let text = |path: &str| repository.files.iter().find(|file| file.path == path).map(|file| &*file.text);
    let Some(page) = text(PAGE) else { return Vec::new() };
    let mut findings = Vec::new();
    let mut find = |line, message| findings.push(Finding { path: PAGE.to_owned(), line, message });
    if page.len() > MAX_BYTES {
        let message = format!("{} bytes; {MAX_BYTES} at most: details go to docs/contributor", page.len());
        find(0, message);
    }

    let members = members(text("Cargo.toml").unwrap_or_default());
    let crates: Vec<Crate> = members
        .into_iter()
        .filter(|folder| folder.starts_with("vmcp/") || matches!(folder.as_str(), "crds" | "operator"))
        .filter_map(|folder| {
            let manifest = text(&format!("{folder}/Cargo.toml"))?;
            let name = manifest.lines().find_map(|line| line.strip_prefix("name = "))?;
            Some((name.trim_matches('"').to_owned(), folder))
        })
        .collect();
    let rows = crate_rows(page);
    for (name, folder) in &crates {
        if !rows.iter().any(|(_, row)| row == &(name.clone(), folder.clone())) {
            find(0, format!("the table of crates lacks a row for `{name}` in {folder}"));
        }
    }
    for (line, row) in rows {
        if !crates.contains(&row) {
            find(line, format!("the workspace has no crate `{}` in {}", row.0, row.1));
        }
    }

    let layers = repository.rust().filter_map(|file| file.path.rsplit_once(LAYERS));
    for (_, layer) in layers.filter(|(_, layer)| !layer.contains('/')) {
        let link = format!("{LAYERS}{layer})");
        if !prose(page).any(|(_, line)| cells(line).is_some() && line.contains(&link)) {
            find(0, format!("the table of layers lacks {layer}"));
        }
    }
    findings
}

/// Returns the members of a workspace's manifest.
fn members(manifest: &str) -> Vec<String> {
    let list = manifest.split_once("members = [").and_then(|(_, rest)| rest.split_once(']'));
    let list = list.map_or("", |(list, _)| list);
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Returns the rows of the table of crates, with their lines.
fn crate_rows(page: &str) -> Vec<(usize, Crate)> {
    let table = prose(page).skip_while(|(_, line)| *line != "## Crates").skip(1);
    let table = table.take_while(|(_, line)| !line.starts_with("## "));
    table
        .filter_map(|(number, line)| {
            let cells = cells(line)?;
            let name = cells.first()?.strip_prefix('`')?.strip_suffix('`')?;
            let folder = cells.get(1)?.strip_prefix('[')?.split(']').next()?;
            Some((number, (name.to_owned(), folder.to_owned())))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::repository::SourceFile;

    const MANIFEST: &str = "[workspace]\nmembers = [\n  \"vmcp/json\",\n  \"tests/tidy\",\n]\n";
    const PAGE_TEXT: &str = "## Crates\n\n| crate | folder |\n|---|---|\n| `vmcp-json` | [vmcp/json](x) |\n\n\
        ## Layers\n\n| layer |\n|---|\n| [a](vmcp/edge/src/port/layers/a.rs) |\n";

    fn messages(page: &str, manifest: &str, layer: &str) -> Vec<String> {
        let file = |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
        let files = vec![
            file(PAGE, page),
            file("Cargo.toml", manifest),
            file("vmcp/json/Cargo.toml", "[package]\nname = \"vmcp-json\"\n"),
            file("vmcp/wire/Cargo.toml", "[package]\nname = \"vmcp-wire\"\n"),
            file(&format!("vmcp/edge/src/port/layers/{layer}"), ""),
        ];
        let repository = Repository { root: PathBuf::new(), files };
        is_of_the_tree(&repository).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn tables_have_every_crate_and_every_layer() {
        assert_eq!(messages(PAGE_TEXT, MANIFEST, "a.rs"), Vec::<String>::new());
        assert_eq!(messages(PAGE_TEXT, MANIFEST, "a/part.rs"), Vec::<String>::new());
        let more = MANIFEST.replace("\"tests/tidy\"", "\"vmcp/wire\"");
        assert_eq!(
            messages(PAGE_TEXT, &more, "b.rs"),
            [
                "the table of crates lacks a row for `vmcp-wire` in vmcp/wire",
                "the table of layers lacks b.rs"
            ]
        );
        let gone = MANIFEST.replace("  \"vmcp/json\",\n", "");
        assert_eq!(
            messages(PAGE_TEXT, &gone, "a.rs"),
            ["the workspace has no crate `vmcp-json` in vmcp/json"]
        );
    }

    #[test]
    fn the_page_stays_short() {
        let long = format!("{PAGE_TEXT}{}", "x".repeat(MAX_BYTES));
        assert_eq!(messages(&long, MANIFEST, "a.rs").len(), 1);
    }
}
