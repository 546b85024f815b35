//! JSON as a tree whose branches unfold.

use maud::{Markup, html};
use serde_json::Value;

use crate::text;

/// Most values of a tree.
const MAX_VALUES: usize = 500;
/// Most entries of one list or object that are shown.
const MAX_ENTRIES: usize = 100;
/// Levels that are shown; deeper ones are in the text of the JSON.
const MAX_DEPTH: usize = 8;
/// Levels that are unfolded at first.
const OPEN_LEVELS: usize = 2;

/// Shows a list or an object as a tree.
pub(super) fn json_tree(value: &Value) -> Markup {
    let mut left = MAX_VALUES;
    html! { ul.tree { (entry(None, value, 0, &mut left)) } }
}

/// Shows one value, with its name or place.
fn entry(name: Option<&str>, value: &Value, depth: usize, left: &mut usize) -> Markup {
    *left = left.saturating_sub(1);
    let label = html! { @if let Some(name) = name { code { (text::line(name)) } " " } };
    let (kind, count) = match value {
        Value::Array(list) => ("list", list.len()),
        Value::Object(object) => ("object", object.len()),
        Value::String(text) => return html! { li { (label) (text::line(text)) } },
        other => return html! { li { (label) code { (other.to_string()) } } },
    };
    if count == 0 || depth == MAX_DEPTH || *left == 0 {
        return html! { li { (label) span.type { (kind) " of " (count) } } };
    }
    let shown = count.min(MAX_ENTRIES).min(*left);
    html! {
        li {
            details open[depth < OPEN_LEVELS] {
                summary { (label) span.type { (kind) " of " (count) } }
                ul.tree {
                    @match value {
                        Value::Array(list) => {
                            @for (place, value) in list.iter().take(shown).enumerate() {
                                (entry(Some(&place.to_string()), value, depth + 1, left))
                            }
                        }
                        Value::Object(object) => {
                            @for (name, value) in object.iter().take(shown) {
                                (entry(Some(name), value, depth + 1, left))
                            }
                        }
                        _ => {}
                    }
                    @if count > shown { li { (count - shown) " more." } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_have_their_names_and_branches_unfold() {
        let value = json!({"<b>": [1, "two\u{202e}", null, {"deep": true}], "empty": {}});
        let shown = json_tree(&value).into_string();
        for part in [
            "<details open><summary><span class=\"type\">object of 2</span></summary>",
            "<code><bdi>&lt;b&gt;</bdi></code> <span class=\"type\">list of 4</span>",
            "<code><bdi>1</bdi></code> <bdi>two⟨U+202E⟩</bdi>",
            "<details><summary><code><bdi>3</bdi></code> <span class=\"type\">object of 1</span>",
            "<code>true</code>",
            "<span class=\"type\">object of 0</span>",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }

    #[test]
    fn a_tree_of_any_size_and_depth_is_bounded() {
        let wide = json!(vec![json!({"a": 1, "b": [1, 2, 3]}); 5_000]);
        let shown = json_tree(&wide).into_string();
        assert!(shown.contains("4900 more."), "{}", shown.len());
        assert!(shown.matches("<li>").count() <= 2 * MAX_VALUES, "{}", shown.matches("<li>").count());
        let deep = (0..120).fold(json!(1), |inner, _| json!([inner]));
        assert_eq!(json_tree(&deep).into_string().matches("<details").count(), MAX_DEPTH);
    }
}
