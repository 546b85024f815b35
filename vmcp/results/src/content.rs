//! [`Content`]: the part of a tool's result that is kept, apart from the pictures that stay in the answer.

mod text;

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::json::{self, quoted};
use text::Text;

/// Bytes that one token stands for in estimates.
const CHARACTERS_PER_TOKEN: u64 = 4;

/// A kept result: one JSON value, or text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    is_json: bool,
    text: Text,
}

impl Content {
    /// Makes content of a text; a whole JSON object or array is read as JSON.
    pub fn of_text(text: String) -> Content {
        let is_json = text.trim_start().starts_with(['{', '[']) && json::parse(&text).is_some();
        Content { is_json, text: Text::Heap(text) }
    }

    /// Makes content of a JSON value.
    pub fn of_json(value: &RawValue) -> Content {
        Content { is_json: true, text: Text::Heap(value.get().to_owned()) }
    }

    /// Returns content as it was kept.
    pub(crate) fn restored(is_json: bool, text: String) -> Content {
        Content { is_json, text: Text::Heap(text) }
    }

    /// Moves a large text out of the heap, for content that is kept: its memory ends with it, whichever
    /// thread lets go of it.
    #[must_use]
    pub fn in_own_pages(self) -> Content {
        Content { is_json: self.is_json, text: self.text.in_own_pages() }
    }

    /// The JSON value, or the plain text.
    pub fn text(&self) -> &str {
        self.text.as_str()
    }

    /// True for a JSON value.
    pub(crate) fn is_json(&self) -> bool {
        self.is_json
    }

    /// The JSON value; `None` for plain text.
    pub fn json(&self) -> Option<&RawValue> {
        if self.is_json { json::parse(self.text()) } else { None }
    }

    /// Media type of [`Content::text`].
    pub fn media_type(&self) -> &'static str {
        if self.is_json { "application/json" } else { "text/plain" }
    }

    /// Returns the content as a JSON value: a text is a string.
    pub fn to_json(&self) -> Box<RawValue> {
        self.json().map_or_else(|| quoted(self.text()), ToOwned::to_owned)
    }

    /// Returns an estimate of the tokens that it costs a model: a quarter of its characters.
    pub fn tokens(&self) -> u64 {
        (self.text().chars().count() as u64).div_ceil(CHARACTERS_PER_TOKEN)
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// True if there is nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A tool's result in two parts.
#[derive(Debug)]
pub struct Split {
    /// Everything but media.
    pub content: Content,
    /// Images and recordings, as they came.
    pub media: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolResult<'a> {
    #[serde(borrow, default)]
    content: Vec<&'a RawValue>,
    #[serde(borrow)]
    structured_content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Block<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    resource: Option<Resource<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource<'a> {
    #[serde(borrow)]
    mime_type: Option<Cow<'a, str>>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    blob: Option<&'a RawValue>,
}

/// Takes a `CallToolResult` apart. The content is the structured content; else the JSON of the only text;
/// else the texts, one below the other; else the blocks as a JSON array. Returns `None` for a result that
/// is not understood.
pub fn split(result: &RawValue) -> Option<Split> {
    let result: ToolResult<'_> = serde_json::from_str(result.get()).ok()?;
    let (media, rest): (Vec<_>, Vec<_>) = result.content.into_iter().partition(|block| is_media(block));
    let media = media.into_iter().map(ToOwned::to_owned).collect();
    let content = match result.structured_content {
        Some(structured) if structured.get() != "null" => Content::of_json(structured),
        _ => of_blocks(&rest)?,
    };
    Some(Split { content, media })
}

fn of_blocks(blocks: &[&RawValue]) -> Option<Content> {
    let texts: Option<Vec<String>> = blocks.iter().map(|block| text_of(block)).collect();
    match texts {
        Some(texts) => Some(Content::of_text(match <[String; 1]>::try_from(texts) {
            // A single text is moved: it may have many megabytes.
            Ok([text]) => text,
            Err(texts) => texts.join("\n"),
        })),
        None => Some(Content::of_json(&to_raw_value(blocks).ok()?)),
    }
}

/// True for a block that is an image or a recording, also as an embedded resource.
pub fn is_media(block: &RawValue) -> bool {
    let Ok(block) = serde_json::from_str::<Block<'_>>(block.get()) else { return false };
    let is_played = |kind: &Cow<'_, str>| ["image/", "audio/"].iter().any(|prefix| kind.starts_with(prefix));
    match &*block.r#type {
        "image" | "audio" => true,
        "resource" => block.resource.is_some_and(|resource| {
            resource.blob.is_some() && resource.mime_type.as_ref().is_some_and(is_played)
        }),
        _ => false,
    }
}

/// Returns the text of a block: of a text, of an embedded text, of an embedded blob that is UTF-8.
fn text_of(block: &RawValue) -> Option<String> {
    let block: Block<'_> = serde_json::from_str(block.get()).ok()?;
    match (&*block.r#type, block.resource) {
        ("text", _) => json::string(block.text?),
        ("resource", Some(Resource { text: Some(text), .. })) => json::string(text),
        ("resource", Some(Resource { blob: Some(blob), .. })) => {
            String::from_utf8(BASE64_STANDARD.decode(json::string(blob)?).ok()?).ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split_text(result: &str) -> Split {
        split(json::parse(result).unwrap()).unwrap()
    }

    #[test]
    fn the_value_of_a_result_is_its_most_telling_part() {
        for (result, is_json, text) in [
            (r#"{"content":[{"type":"text","text":"x"}],"structuredContent":{"a":1}}"#, true, r#"{"a":1}"#),
            (r#"{"content":[{"type":"text","text":" [1, 2]"}]}"#, true, " [1, 2]"),
            (r#"{"content":[{"type":"text","text":"[1"},{"type":"text","text":"b"}]}"#, false, "[1\nb"),
            (r#"{"content":[{"type":"resource","resource":{"uri":"a:b","text":"t"}}]}"#, false, "t"),
            (r#"{"content":[{"type":"resource","resource":{"uri":"a:b","blob":"aGk="}}]}"#, false, "hi"),
            (r#"{"content":[{"type":"text","text":"7"}],"structuredContent":null}"#, false, "7"),
        ] {
            let split = split_text(result);
            let content = split.content;
            assert_eq!((content.json().is_some(), content.text()), (is_json, text), "{result}");
            assert!(split.media.is_empty());
        }
    }

    #[test]
    fn bytes_that_are_no_text_stay_base64_in_valid_json() {
        let blob =
            r#"{"type":"resource","resource":{"uri":"a:b","mimeType":"application/zip","blob":"/////w=="}}"#;
        let split = split_text(&format!(r#"{{"content":[{{"type":"text","text":"x"}},{blob}]}}"#));
        assert_eq!(split.content.text(), format!(r#"[{{"type":"text","text":"x"}},{blob}]"#));
        assert!(split.content.json().is_some());
    }

    #[test]
    fn pictures_are_apart() {
        let image = r#"{"type":"image","mimeType":"image/png","data":"AAAA"}"#;
        let blob = r#"{"type":"resource","resource":{"uri":"a:b","mimeType":"audio/wav","blob":"AAAA"}}"#;
        let split = split_text(&format!(r#"{{"content":[{image},{{"type":"text","text":"x"}},{blob}]}}"#));
        let media: Vec<_> = split.media.iter().map(|block| block.get()).collect();
        assert_eq!((media, split.content.text()), (vec![image, blob], "x"));
    }
}
