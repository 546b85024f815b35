//! Results that vmcp itself writes, as `CallToolResult`: a structured success, a mistake in the arguments, an
//! envelope.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use vmcp_json::object::Object;
use vmcp_script::picture::Picture;
use vmcp_wire::meta::META;
use vmcp_wire::payload::Payload;

/// A content block of text.
#[derive(Serialize)]
pub(crate) struct TextBlock<'a> {
    r#type: &'static str,
    /// The text.
    pub(crate) text: &'a str,
}

impl<'a> TextBlock<'a> {
    /// A block with this text.
    pub(crate) fn new(text: &'a str) -> TextBlock<'a> {
        TextBlock { r#type: "text", text }
    }
}

/// A content block of an image.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ImageBlock<'a> {
    r#type: &'static str,
    /// The file in base64.
    data: &'a str,
    mime_type: &'static str,
}

impl<'a> ImageBlock<'a> {
    /// A block with this picture.
    fn new(picture: &'a Picture) -> ImageBlock<'a> {
        ImageBlock { r#type: "image", data: &picture.data, mime_type: picture.format.mime_type() }
    }
}

/// A content block.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Block<'a> {
    Text(TextBlock<'a>),
    Image(ImageBlock<'a>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallToolResult<'a, B> {
    content: &'a [B],
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_error: bool,
}

/// Makes a result of these blocks.
pub(crate) fn result(
    content: &[impl Serialize],
    structured_content: Option<&RawValue>,
    is_error: bool,
) -> Box<RawValue> {
    // Strings and valid raw JSON cannot fail to serialize.
    to_raw_value(&CallToolResult { content, structured_content, is_error }).unwrap_or_default()
}

/// Makes a success: the JSON as `structuredContent`, and as a text block for clients that do not read that.
pub(crate) fn structured(json: &RawValue) -> Box<RawValue> {
    result(&[TextBlock::new(json.get())], Some(json), false)
}

/// Makes a success with a text of its own for the model.
pub(crate) fn told(text: &str, json: &RawValue) -> Box<RawValue> {
    result(&[TextBlock::new(text)], Some(json), false)
}

/// Returns a result whose structured content stands alone with a text block of the same JSON: call_tool
/// declares no output schema, so that its clients read the blocks. `None` if the result has content.
pub(crate) fn with_text(result: &Payload) -> Option<Box<RawValue>> {
    if !result.contains("\"structuredContent\"") {
        return None;
    }
    let object = Object::parse(result).ok()?;
    let structured = object.text("structuredContent").filter(|json| *json != "null")?;
    let content = object.text("content").filter(|content| *content != "null").unwrap_or("[]");
    let blocks: Vec<&RawValue> = serde_json::from_str(content).ok()?;
    let is_blank = |block: &&RawValue| {
        let block = Object::parse(block).unwrap_or_default();
        block.get_str("text").is_some_and(|text| text.trim().is_empty())
    };
    if !blocks.iter().all(is_blank) {
        return None;
    }
    let mut edit = object.edit();
    edit.set("content", serde_json::to_string(&[TextBlock::new(structured)]).ok()?);
    edit.finish().into_raw().ok()
}

/// Makes the result for a mistake in the arguments of an own tool.
pub(crate) fn error(message: &str) -> Box<RawValue> {
    result(&[TextBlock::new(message)], None, true)
}

/// Makes a failure: the JSON as `structuredContent` and as a text block.
pub(crate) fn failure(json: &RawValue) -> Box<RawValue> {
    result(&[TextBlock::new(json.get())], Some(json), true)
}

/// Adds `_meta` with one text to a result that has none.
pub(crate) fn with_meta(result: Box<RawValue>, key: &str, text: &str) -> Box<RawValue> {
    let meta = serde_json::to_string(&BTreeMap::from([(key, text)])).unwrap_or_default();
    let edited = Object::parse(&result).ok().and_then(|object| {
        let mut edit = object.edit();
        edit.set(META, meta);
        edit.finish().into_raw().ok()
    });
    edited.unwrap_or(result)
}

/// Makes a result with pictures behind its text: the JSON as `structuredContent` and as a text block.
pub(crate) fn illustrated(json: &RawValue, pictures: &[Picture], is_error: bool) -> Box<RawValue> {
    result(&blocks([json.get()], pictures), Some(json), is_error)
}

/// Makes blocks of texts, with pictures behind them.
pub(crate) fn blocks<'a>(
    texts: impl IntoIterator<Item = &'a str>,
    pictures: &'a [Picture],
) -> Vec<Block<'a>> {
    let texts = texts.into_iter().map(|text| Block::Text(TextBlock::new(text)));
    texts.chain(pictures.iter().map(|picture| Block::Image(ImageBlock::new(picture)))).collect()
}

/// Kinds of failure of a call, as the model reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum ErrorType {
    /// The backend did not answer in time.
    TimeoutError,
    /// The arguments are wrong.
    InvalidInput,
    /// No such tool or server, or none that the caller may use.
    NotFound,
    /// The backend failed, or cannot be reached.
    BackendError,
    /// The circuit breaker is open: the backend failed too often of late, and nothing was sent.
    CircuitOpen,
    /// A rate limit is reached, and nothing was sent.
    RateLimited,
    /// The user did not confirm the call, and nothing was sent.
    NotConfirmed,
    /// The decision point or a webhook denied the call, and nothing was sent.
    Denied,
    /// A webhook withholds the result; the tool was called.
    Withheld,
    /// The client's token lacks scopes, and nothing was sent.
    InsufficientScope,
}

/// A successful result in an envelope: `{success, server, tool, result}`, or `{success, result}`.
#[derive(Serialize)]
pub(crate) struct Envelope<'a> {
    success: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'a str>,
    result: &'a RawValue,
}

impl<'a> Envelope<'a> {
    /// Puts a tool's `CallToolResult` into an envelope. `called`: names of backend and tool, where the answer
    /// repeats them.
    pub(crate) fn new(called: Option<(&'a str, &'a str)>, result: &'a RawValue) -> Envelope<'a> {
        let (server, tool) = called.unzip();
        Envelope { success: true, server, tool, result }
    }

    /// Makes the result.
    pub(crate) fn to_result(&self) -> Box<RawValue> {
        structured(&to_raw_value(self).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use vmcp_script::picture::PictureFormat;

    fn value(raw: &RawValue) -> Value {
        serde_json::from_str(raw.get()).unwrap()
    }

    #[test]
    fn an_envelope_has_exactly_four_keys_and_a_compact_one_two() {
        let inner = RawValue::from_string(r#"{"content":[],"x":1e400}"#.into()).unwrap();
        for (called, expected) in [
            (
                Some(("s", "t")),
                r#"{"success":true,"server":"s","tool":"t","result":{"content":[],"x":1e400}}"#,
            ),
            (None, r#"{"success":true,"result":{"content":[],"x":1e400}}"#),
        ] {
            let raw = Envelope::new(called, &inner).to_result();
            assert!(raw.get().ends_with(&format!("\"structuredContent\":{expected}}}")), "{}", raw.get());
        }
    }

    #[test]
    fn structured_content_alone_gets_a_text() {
        let with = |json: &str| {
            let payload = Payload::from(RawValue::from_string(json.to_owned()).unwrap());
            with_text(&payload).map(|raw| raw.get().to_owned())
        };
        for json in [
            r#"{"structuredContent":{"a": 1e400}}"#,
            r#"{"content":null,"structuredContent":{"a": 1e400}}"#,
            r#"{"content":[],"structuredContent":{"a": 1e400}}"#,
            r#"{"content":[{"type":"text","text":" "}],"structuredContent":{"a": 1e400}}"#,
        ] {
            let result = with(json).unwrap();
            assert!(result.contains(r#""content":[{"type":"text","text":"{\"a\": 1e400}"}]"#), "{result}");
            assert!(result.contains(r#""structuredContent":{"a": 1e400}"#), "{result}");
        }
        for json in [
            r#"{"content":[{"type":"text","text":"x"}],"structuredContent":{"a":1}}"#,
            r#"{"content":[{"type":"image","data":"","mimeType":"image/png"}],"structuredContent":{"a":1}}"#,
            r#"{"content":[]}"#,
            r#"{"content":[],"structuredContent":null}"#,
        ] {
            assert_eq!(with(json), None, "{json}");
        }
    }

    #[test]
    fn metadata_stand_beside_the_content() {
        let json = RawValue::from_string(r#"{"n":1}"#.into()).unwrap();
        let plain = structured(&json);
        let marked = with_meta(plain.clone(), "vmcp/code", "say \"hi\"\n");
        assert_eq!(value(&marked)["_meta"], json!({"vmcp/code": "say \"hi\"\n"}));
        assert!(marked.get().starts_with(plain.get().trim_end_matches('}')), "{}", marked.get());
    }

    #[test]
    fn pictures_stand_behind_the_text() {
        let json = RawValue::from_string(r#"{"result":"1"}"#.into()).unwrap();
        let picture = |format, data: &str| Picture { format, data: data.to_owned() };
        let pictures = [picture(PictureFormat::Png, "AAAA"), picture(PictureFormat::Svg, "BBBB")];
        let result = value(&illustrated(&json, &pictures, false));
        assert_eq!(
            result,
            json!({
                "content": [
                    {"type": "text", "text": "{\"result\":\"1\"}"},
                    {"type": "image", "data": "AAAA", "mimeType": "image/png"},
                    {"type": "image", "data": "BBBB", "mimeType": "image/svg+xml"},
                ],
                "structuredContent": {"result": "1"},
            })
        );
        assert_eq!(value(&illustrated(&json, &[], true)), value(&failure(&json)));
        assert_eq!(value(&illustrated(&json, &[], false)), value(&structured(&json)));
    }

    #[test]
    fn structured_results_carry_their_json_twice() {
        let json = RawValue::from_string(r#"{"tools":["é\n"]}"#.into()).unwrap();
        let result = value(&structured(&json));
        assert_eq!(result["content"][0]["text"], r#"{"tools":["é\n"]}"#);
        assert_eq!(result["structuredContent"], json!({"tools": ["é\n"]}));
        assert!(result.get("isError").is_none());
    }
}
