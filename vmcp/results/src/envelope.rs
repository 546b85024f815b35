//! The envelope: the answer in place of a large result. It has the reference, shape, size, the beginning and
//! the uses, within [`MAX_ENVELOPE_BYTES`]; pictures follow as they came.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::content::Content;
use crate::preview::{preview, preview_of};
use crate::shape::{describe, row_count};

/// Most bytes of a result that is an envelope, without its pictures. A whole answer stays below 1,000 bytes
/// with the members that both eras of the protocol add to a result.
const MAX_ENVELOPE_BYTES: usize = 780;
/// Prefix of the URIs of kept results; the reference follows.
pub const URI_PREFIX: &str = "vmcp://results/";

/// Bytes of the preview, the first that fits.
const PREVIEW_BYTES: [usize; 8] = [400, 320, 250, 190, 140, 90, 50, 8];
/// Most bytes of the shape.
const SHAPE_BYTES: usize = 180;
/// Most characters of a tool's name in a link.
const NAME_CHARS: usize = 64;

/// Uses of a reference, for the model.
const USES: &str = "read_result reads parts, search_result finds, process_large_dataset filters and sums; \
                    {\"$result_ref\":…} passes it as an argument of call_tool";

/// A summary of kept content.
#[derive(Debug, Serialize)]
pub struct Summary<'a> {
    /// The reference.
    pub result_ref: &'a str,
    /// Estimate of the tokens of the content.
    pub tokens: u64,
    /// Rows, where there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<usize>,
    /// Types, lengths, keys.
    pub shape: String,
    /// The beginning.
    pub preview: Box<RawValue>,
    /// Seconds until the reference ends.
    pub expires_in_seconds: u64,
    /// Uses of the reference.
    pub uses: &'static str,
}

impl<'a> Summary<'a> {
    /// Summarizes content with a preview of at most `preview_bytes`.
    pub fn new(result_ref: &'a str, content: &Content, seconds: u64, preview_bytes: usize) -> Summary<'a> {
        Summary {
            result_ref,
            tokens: content.tokens(),
            rows: row_count(content),
            shape: describe(content, SHAPE_BYTES),
            preview: preview(content, preview_bytes),
            expires_in_seconds: seconds,
            uses: USES,
        }
    }
}

#[derive(Serialize)]
struct TextBlock<'a> {
    r#type: &'static str,
    text: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceLink<'a> {
    r#type: &'static str,
    uri: String,
    name: &'a str,
    mime_type: &'static str,
    size: usize,
}

#[derive(Serialize)]
struct ToolResult<'a> {
    content: Vec<&'a RawValue>,
}

/// Writes the envelope as a `CallToolResult`. `tool` names the link, `seconds` is the rest of its life.
pub fn write(
    result_ref: &str,
    content: &Content,
    media: &[Box<RawValue>],
    tool: &str,
    seconds: u64,
) -> Box<RawValue> {
    let name: String = tool.chars().take(NAME_CHARS).collect();
    let link = to_raw_value(&ResourceLink {
        r#type: "resource_link",
        uri: format!("{URI_PREFIX}{result_ref}"),
        name: &name,
        mime_type: content.media_type(),
        size: content.len(),
    })
    .unwrap_or_default();
    let mut summary = Summary::new(result_ref, content, seconds, 8);
    let mut text = Box::default();
    let (json, whole) = (content.json(), content.text());
    for bytes in PREVIEW_BYTES {
        summary.preview = preview_of(json, whole, bytes);
        text = text_block(&summary);
        if text.get().len() + link.get().len() + r#"{"content":[,]}"#.len() <= MAX_ENVELOPE_BYTES {
            break;
        }
    }
    let media = media.iter().map(AsRef::as_ref);
    let content = [&*text, &*link].into_iter().chain(media).collect();
    to_raw_value(&ToolResult { content }).unwrap_or_default()
}

fn text_block(summary: &Summary<'_>) -> Box<RawValue> {
    let text = serde_json::to_string(summary).unwrap_or_default();
    to_raw_value(&TextBlock { r#type: "text", text: &text }).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn an_envelope_fits_whatever_it_stands_for() {
        let rows: Vec<_> =
            (0..50_000).map(|n| format!(r#"{{"id":{n},"name":"row \"{n}\"","é":[1.5,null]}}"#)).collect();
        let wide: Vec<_> = (0..500).map(|n| format!(r#""a \"quoted\" key {n}":"\u0000\u0001{n}""#)).collect();
        let reference = "res_0123456789abcdefghijkl";
        for text in [
            format!("[{}]", rows.join(",")),
            format!("{{{}}}", wide.join(",")),
            "\"\\\n".repeat(10_000),
            "\u{1}".repeat(10_000),
            format!("{}{}", "[".repeat(5_000), "]".repeat(5_000)),
        ] {
            let content = Content::of_text(text);
            let envelope = write(reference, &content, &[], &"t\"".repeat(60), 86_400);
            assert!(envelope.get().len() <= MAX_ENVELOPE_BYTES, "{}", envelope.get());
            let value: Value = serde_json::from_str(envelope.get()).unwrap();
            let told: Value = serde_json::from_str(value["content"][0]["text"].as_str().unwrap()).unwrap();
            assert_eq!(told["result_ref"], reference);
            assert_eq!(value["content"][1]["uri"], format!("vmcp://results/{reference}"));
        }
    }

    #[test]
    fn pictures_follow_as_they_came() {
        let image =
            RawValue::from_string(r#"{"type":"image","data":"AA==", "mimeType":"image/png"}"#.to_owned());
        let envelope = write("res_x", &Content::of_text("x".to_owned()), &[image.unwrap()], "t", 60);
        assert!(envelope.get().ends_with(r#"{"type":"image","data":"AA==", "mimeType":"image/png"}]}"#));
    }
}
