//! Renders the reference page of the settings, `docs/reference/configuration.md`, from the JSON schema.

use std::fmt::Write as _;

use super::schema;
use super::schema_table::{SchemaTable, description, one_line, properties};

const HEAD: &str = "\
# Settings of `vmcp.yaml`

Generated from the JSON schema by `vmcp schema --markdown`; do not edit. What the settings are for, with examples:
[configuration](../user/configuration.md). The schema itself, for editors: [vmcp.schema.json](vmcp.schema.json).

In a path, `[]` stands for each item of a list and `<name>` for a key of your own.
";

/// Returns every setting as Markdown, one table a section; `docs/reference/configuration.md` is its printed
/// form.
pub fn reference_markdown() -> String {
    let root = schema::shared();
    let table = SchemaTable::new(root, &[]);
    let mut page = format!("{HEAD}\n{}\n", one_line(description(root)));
    for (name, section) in properties(root) {
        // Writing to a string cannot fail.
        let _ = writeln!(page, "\n## `{name}`\n\n{}", one_line(description(section)));
        table.write(&mut page, name, section);
    }
    page
}
