//! The table as validations of a ValidatingAdmissionPolicy, in CEL.

use std::fmt::Write as _;

use vmcp_crds::GROUP;

use super::table::{AUTHOR_RIGHTS, AuthorRight, REFERENCE_GRANT, Right, Trigger};

/// Returns the template of the chart with the kinds and the validations of its policy.
pub fn author_rights_policy() -> String {
    let mut text = "{{- /* Written by `make schema` from operator/src/runtime/author_rights/table.rs. */}}\n\
                    {{- define \"vmcp-operator.authorKinds\" -}}\n"
        .to_owned();
    let mut kinds: Vec<&str> = AUTHOR_RIGHTS.iter().flat_map(|row| row.kinds).copied().collect();
    // The template names the kind of the other API group itself.
    kinds.retain(|kind| *kind != REFERENCE_GRANT);
    kinds.sort_unstable();
    kinds.dedup();
    let plurals: Vec<String> = kinds.iter().map(|kind| plural(kind)).collect();
    // Writing to a String does not fail.
    let _ = write!(
        text,
        "[{}]\n{{{{- end }}}}\n{{{{- define \"vmcp-operator.authorRights\" -}}}}\n",
        plurals.join(", ")
    );
    for row in AUTHOR_RIGHTS {
        let _ = write!(
            text,
            "- expression: >-\n    {}\n  message: {}\n  reason: Forbidden\n",
            expression(row),
            message(row)
        );
    }
    text + "{{- end }}\n"
}

fn plural(kind: &str) -> String {
    let lower = kind.to_lowercase();
    lower.strip_suffix('y').map_or_else(|| format!("{lower}s"), |stem| format!("{stem}ies"))
}

fn expression(row: &AuthorRight) -> String {
    let kinds: Vec<String> = row.kinds.iter().map(|kind| format!("'{kind}'")).collect();
    let others = format!("!(request.kind.kind in [{}])", kinds.join(", "));
    let Right { verb, group, resource, kinds: _ } = row.right;
    // The operator makes objects of its own kinds in the group of the resource.
    let group = if group == GROUP { "request.kind.group".to_owned() } else { format!("'{group}'") };
    let right = format!(
        "authorizer.group({group}).resource('{resource}').namespace(request.namespace).check('{verb}').allowed()"
    );
    let asked = match row.trigger {
        Trigger::Always => None,
        Trigger::Given(paths) => {
            let given: Vec<String> =
                paths.iter().map(|path| format!("{}.hasValue()", optional(path))).collect();
            Some(given.join(" || "))
        }
        Trigger::GivenInItem(lists, field) => {
            let given =
                |list: &&str| format!("{}.orValue([]).exists(item, has(item.{field}))", optional(list));
            Some(lists.iter().map(given).collect::<Vec<_>>().join(" || "))
        }
        Trigger::HasWord(list, words) => {
            let words: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
            let words = words.join(", ");
            Some(format!("{}.orValue([]).exists(word, word in [{words}])", optional(list)))
        }
        Trigger::IsInItem(list, field, value) => Some(format!(
            "{}.orValue([]).exists(item, item.?{field}.orValue('') == '{value}')",
            optional(list)
        )),
        Trigger::Is(path, value) => Some(format!("{}.orValue('') == '{value}'", optional(path))),
        Trigger::Unless(path, value) => Some(format!("{}.orValue('{value}') != '{value}'", optional(path))),
    };
    let asked = asked.map(|asked| format!("!({asked}) ||\n    "));
    format!("{others} ||\n    {}{right}", asked.unwrap_or_default())
}

/// Returns the field in CEL, with an optional value.
fn optional(path: &str) -> String {
    path.split('.').fold("object.spec".to_owned(), |field, key| format!("{field}.?{key}"))
}

fn message(row: &AuthorRight) -> String {
    let subject = match row.trigger {
        Trigger::Always => format!("a resource of the kind {}", row.kinds.join(" or ")),
        Trigger::Given(paths) => format!("spec.{}", paths.first().copied().unwrap_or_default()),
        Trigger::GivenInItem(lists, field) => {
            format!("{field} of an entry of spec.{}", lists.join(", spec."))
        }
        Trigger::IsInItem(list, field, value) => {
            format!("an entry of spec.{list} with {field} {value}")
        }
        Trigger::HasWord(path, _) | Trigger::Is(path, _) | Trigger::Unless(path, _) => {
            format!("spec.{path}")
        }
    };
    format!("{subject} {}; this takes the right to {} in the namespace", row.gives, row.right.words())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plurals_are_those_of_the_definitions() {
        for (kind, expected) in [
            ("VirtualMCPServer", "virtualmcpservers"),
            ("MCPServerEntry", "mcpserverentries"),
            ("MCPRemoteProxy", "mcpremoteproxies"),
        ] {
            assert_eq!(plural(kind), expected);
        }
    }

    #[test]
    fn a_line_asks_its_own_kinds_for_its_own_field() {
        let row = AUTHOR_RIGHTS.iter().find(|row| row.right.resource == "horizontalpodautoscalers").unwrap();
        assert_eq!(
            expression(row),
            "!(request.kind.kind in ['VirtualMCPServer']) ||\n    !(object.spec.?autoscaling.hasValue()) ||\n    \
             authorizer.group('autoscaling').resource('horizontalpodautoscalers').namespace(request.namespace)\
             .check('create').allowed()"
        );
    }

    #[test]
    fn a_right_to_our_kinds_is_one_in_the_group_of_the_resource() {
        let of = |resource: &str| {
            let row = AUTHOR_RIGHTS.iter().find(|row| row.right.resource == resource).unwrap();
            expression(row)
        };
        let entries = of("mcpserverentries");
        assert!(
            entries.contains("authorizer.group(request.kind.group).resource('mcpserverentries')"),
            "{entries}"
        );
        assert!(!of("deployments").contains("request.kind.group"));
    }
}
