//! The table as a page of the reference.

use std::fmt::Write as _;

use super::table::{AUTHOR_RIGHTS, Trigger};

/// Returns `docs/reference/author-rights.md`.
pub fn author_rights_page() -> String {
    let mut page = "# Rights of authors

<!-- Written by `make schema` from operator/src/runtime/author_rights/table.rs. -->

The operator makes objects and hands on Secrets with rights of its own. An author of a resource needs the right in the last
column, in the namespace of the resource. The admission policy `…-authors` checks [every line](../operator/kubernetes.md#rights).
Without `AUTHORS_CHECKED`, the operator itself refuses the field of every line, except those about Deployments and StatefulSets.

| kind | field of `spec` | effect | right |
|---|---|---|---|
"
    .to_owned();
    for row in AUTHOR_RIGHTS {
        let field = match row.trigger {
            Trigger::Always => "any".to_owned(),
            Trigger::Given(paths) => {
                paths.iter().map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ")
            }
            Trigger::GivenInItem(lists, field) => {
                lists.iter().map(|list| format!("`{list}[].{field}`")).collect::<Vec<_>>().join(", ")
            }
            Trigger::HasWord(list, words) => {
                let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
                format!("`{list}` with {}", words.join(", "))
            }
            Trigger::IsInItem(list, field, value) => format!("`{list}[].{field}: {value}`"),
            Trigger::Is(path, value) => format!("`{path}: {value}`"),
            Trigger::Unless(path, value) => format!("`{path}`, unless `{value}`"),
        };
        // Writing to a String does not fail.
        let _ =
            writeln!(page, "| {} | {field} | {} | {} |", row.kinds.join(", "), row.gives, row.right.words());
    }
    page.push_str(
        "
Without a right, whatever the author: a Service inside of the cluster, a ServiceAccount without rights, the ConfigMap and the
Secret of a server, a PodDisruptionBudget that lets one pod go at a time, and a NetworkPolicy that admits the VirtualMCPServers of
the group to an MCPServer.
",
    );
    page
}
