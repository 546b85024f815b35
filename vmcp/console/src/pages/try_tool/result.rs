//! The content of a tool's result, each block by its kind, and its structured content. Blocks are a server's:
//! only pictures and sounds of kinds that hold no script are shown as such.

use maud::{Markup, html};
use serde_json::Value;

use super::json_tree::json_tree;
use crate::text;

/// Most blocks that are shown.
const MAX_BLOCKS: usize = 20;
/// Most characters of Base64 of a picture or sound: 750 kB.
const MAX_MEDIA: usize = 1_000_000;
/// Most characters of Base64 of all pictures and sounds of a result.
const MAX_ALL_MEDIA: usize = 4_000_000;
/// Kinds of pictures that are shown. SVG is a document that may hold script.
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/// Kinds of sounds that can be played.
const SOUNDS: [&str; 7] =
    ["audio/mpeg", "audio/wav", "audio/x-wav", "audio/ogg", "audio/webm", "audio/mp4", "audio/flac"];

/// Most bytes of a text that is read as JSON: 256 KiB.
const MAX_JSON_TEXT: usize = 256 << 10;

/// Shows the blocks of a `CallToolResult` and its structured content; nothing without them.
pub(super) fn content(result: &Value) -> Markup {
    let blocks = result.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let structured = result.get("structuredContent").filter(|content| is_tree(content));
    let mut left = MAX_ALL_MEDIA;
    html! {
        @for block in blocks.iter().take(MAX_BLOCKS) { (shown(block, structured, &mut left)) }
        @if blocks.len() > MAX_BLOCKS { p { (blocks.len() - MAX_BLOCKS) " more blocks." } }
        @if let Some(structured) = structured {
            h3 { "Structured content" }
            (json_tree(structured))
        }
    }
}

fn is_tree(value: &Value) -> bool {
    matches!(value, Value::Array(_) | Value::Object(_))
}

/// Shows a text; JSON as a tree. A text that repeats the structured content, as servers write it for older
/// clients, is named alone.
fn text_block(text: &str, structured: Option<&Value>) -> Markup {
    let is_json = text.len() <= MAX_JSON_TEXT && text.trim_start().starts_with(['{', '[']);
    let json = is_json.then(|| serde_json::from_str::<Value>(text).ok()).flatten();
    match json.filter(is_tree) {
        Some(json) if structured == Some(&json) => {
            html! { p.hint { "A text with the same JSON as the structured content." } }
        }
        Some(json) => json_tree(&json),
        None => text::prose(text),
    }
}

fn shown(block: &Value, structured: Option<&Value>, left: &mut usize) -> Markup {
    let part = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default();
    match part("type") {
        "text" => text_block(part("text"), structured),
        kind @ ("image" | "audio") => media(kind, part("mimeType"), part("data"), left),
        "resource_link" => html! {
            p { "Resource " code { (text::line(part("uri"))) } " " (text::line(part("name"))) }
        },
        "resource" => resource(block.get("resource").unwrap_or(&Value::Null)),
        other => html! { p { "A block of the kind " code { (text::line(other)) } "." } },
    }
}

/// Shows a picture or a sound of a known kind within the bounds.
fn media(kind: &str, mime_type: &str, data: &str, left: &mut usize) -> Markup {
    let known: &[&str] = if kind == "image" { &PICTURES } else { &SOUNDS };
    // The type of the list goes into the page, never the server's own text.
    let known = known.iter().find(|known| known.eq_ignore_ascii_case(mime_type.trim()));
    match known {
        Some(known) if data.len() <= MAX_MEDIA.min(*left) && is_base64(data) => {
            *left -= data.len();
            let address = format!("data:{known};base64,{data}");
            html! {
                p {
                    @if kind == "image" { img.result src=(address) alt=(format!("Picture of the answer, {known}")); }
                    @else { audio controls src=(address) {} }
                }
            }
        }
        _ => html! {
            p {
                "An " (kind) " of the type " code { (text::line(mime_type)) } ", "
                (text::bytes(data.len() as u64)) " of Base64, that is not shown here."
            }
        },
    }
}

/// Returns true for Base64 that browsers read in an address: broken text would be an error of the page.
fn is_base64(data: &str) -> bool {
    let digits = data.trim_end_matches('=');
    let padding = data.len() - digits.len();
    let is_whole =
        if padding == 0 { data.len() % 4 != 1 } else { padding <= 2 && data.len().is_multiple_of(4) };
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    !digits.is_empty() && is_whole && digits.bytes().all(is_digit)
}

fn resource(resource: &Value) -> Markup {
    let part = |key: &str| resource.get(key).and_then(Value::as_str);
    html! {
        p { "Resource " code { (text::line(part("uri").unwrap_or_default())) } " " (text::line(part("mimeType").unwrap_or_default())) }
        @if let Some(text) = part("text") { (text::prose(text)) }
        @if let Some(blob) = part("blob") { p { (text::bytes(blob.len() as u64)) " of Base64." } }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(blocks: &Value) -> String {
        content(&json!({ "content": blocks })).into_string()
    }

    #[test]
    fn texts_pictures_sounds_and_resources_are_shown_by_their_kind() {
        let shown = of(&json!([
            {"type": "text", "text": "two\nlines"},
            {"type": "image", "mimeType": "image/PNG", "data": "iVBORw0KGgo="},
            {"type": "audio", "mimeType": "audio/wav", "data": "UklGRg=="},
            {"type": "resource_link", "uri": "file:///a", "name": "a"},
            {"type": "resource", "resource": {"uri": "file:///b", "text": "inside"}},
        ]));
        for part in [
            "two\nlines",
            "src=\"data:image/png;base64,iVBORw0KGgo=\"",
            "<audio controls src=\"data:audio/wav;base64,UklGRg==\">",
            "<bdi>file:///a</bdi>",
            "inside",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(!shown.contains("href"), "the URI of a server is no link: {shown}");
    }

    #[test]
    fn pictures_may_lack_their_padding() {
        for data in ["iVBORw0KGgo", "iVBORw0KGgo=", "iV=="] {
            let shown = of(&json!([{"type": "image", "mimeType": "image/png", "data": data}]));
            assert!(shown.contains(&format!("base64,{data}\"")), "{shown}");
        }
    }

    #[test]
    fn json_is_a_tree_and_a_repeated_one_is_shown_once() {
        let structured = json!({"rows": [{"<id>": 7}]});
        let repeated = json!({"type": "text", "text": structured.to_string()});
        let shown = content(&json!({"content": [repeated], "structuredContent": structured})).into_string();
        assert_eq!(shown.matches("<details open>").count(), 2, "{shown}");
        assert!(shown.contains("the same JSON") && shown.contains("&lt;id&gt;"), "{shown}");
        assert!(of(&json!([{"type": "text", "text": "[1, 2]"}])).contains("list of 2"));
        assert!(of(&json!([{"type": "text", "text": "[1, 2"}])).contains("[1, 2<"), "no JSON: a text");
        assert!(of(&json!([{"type": "text", "text": "7"}])).contains(">7<"));
    }

    #[test]
    fn hostile_blocks_stay_inert_and_bounded() {
        for block in [
            json!({"type": "image", "mimeType": "image/svg+xml", "data": "PHN2Zz4="}),
            json!({"type": "image", "mimeType": "text/html", "data": "PHN2Zz4="}),
            json!({"type": "image", "mimeType": "image/png\" onerror=\"x", "data": "PHN2Zz4="}),
            json!({"type": "image", "mimeType": "image/png", "data": "a\" onerror=\"x"}),
            json!({"type": "image", "mimeType": "image/png", "data": "abcde"}),
            json!({"type": "image", "mimeType": "image/png", "data": "ab=c"}),
            json!({"type": "image", "mimeType": "image/png", "data": "abcde==="}),
            json!({"type": "image", "mimeType": "image/png", "data": "ab\nd"}),
            json!({"type": "image", "mimeType": "image/png", "data": "="}),
            json!({"type": "audio", "mimeType": "image/png", "data": "PHN2Zz4="}),
            json!({"type": "image", "mimeType": "image/png", "data": "A".repeat(MAX_MEDIA + 1)}),
            json!({"type": "<script>", "data": 7}),
            json!("<script>"),
        ] {
            let shown = of(&json!([block]));
            assert!(
                !shown.contains("<img") && !shown.contains("<audio") && !shown.contains("<script"),
                "{shown}"
            );
            assert!(shown.len() < 2_000, "{}", shown.len());
        }
        let picture = json!({"type": "image", "mimeType": "image/png", "data": "A".repeat(MAX_MEDIA)});
        let shown = of(&vec![picture; 30].into());
        assert_eq!(shown.matches("<img").count(), MAX_ALL_MEDIA / MAX_MEDIA);
        assert!(shown.contains("10 more blocks"), "{}", shown.len());
        assert_eq!(content(&json!({"content": "x"})).into_string(), "");
    }
}
