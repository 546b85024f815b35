//! Token limit of a call's result (`optimizer.maxToolResponseTokens`): protects a model's context from an
//! oversized answer.

use std::borrow::Cow;

use serde_json::value::{RawValue, to_raw_value};
use vmcp_json::object::Object;
use vmcp_json::text;
use vmcp_results::is_media;

use crate::answer::tool_result::TextBlock;

/// Tokens that an image or a recording costs, whatever the size of its data: clients hand it to the model as
/// media. About the most that a model charges for an image.
const MEDIA_TOKENS: u64 = 1600;
/// Fewest tokens of a text that are worth keeping of it.
const MIN_CUT_TOKENS: u64 = 16;

/// Cuts a result to `limit` tokens: keeps as many whole content blocks as fit, in order, after a notice that
/// names the omission. Of a first text that does not fit, the beginning is kept. Returns `None` if the result
/// fits, or is not understood.
pub(in crate::own_tools) fn cut(result: &RawValue, limit: u64) -> Option<Box<RawValue>> {
    // A token is about four characters, so a result of at most four bytes per token fits without parsing.
    if (result.get().len() as u64).div_ceil(4) <= limit {
        return None;
    }
    let object = Object::parse(result).ok()?;
    let blocks: Vec<&RawValue> = match object.get("content") {
        Some(content) => serde_json::from_str(content.get()).ok()?,
        None => Vec::new(),
    };
    let KeptBlocks { blocks: kept, shortened } = fitting(&blocks, limit);
    let omitted = blocks.len() - kept.len();
    // Structured content repeats the blocks: it goes with any of them, and when it is too large itself.
    let is_cut = omitted > 0 || shortened;
    let structured = object.get("structuredContent").filter(|json| is_cut || size(json.get()) > limit);
    if !is_cut && structured.is_none() {
        return None;
    }
    let notice = format!(
        "[Response truncated to {limit} tokens (maxToolResponseTokens): {omitted} of {} content items omitted{}{}. \
         Ask for less: filter, page, or name the fields that you need.]",
        blocks.len(),
        if shortened { ", the end of one cut off" } else { "" },
        if structured.is_some() { ", structured content omitted" } else { "" }
    );
    let notice = to_raw_value(&TextBlock::new(&notice)).ok()?;
    let kept = kept.iter().map(AsRef::as_ref);
    let content = to_raw_value(&std::iter::once(&*notice).chain(kept).collect::<Vec<_>>()).ok()?;
    let mut edit = object.edit();
    edit.set("content", content.get().to_owned());
    if structured.is_some() {
        edit.remove("structuredContent");
    }
    edit.finish().into_raw().ok()
}

/// Blocks that fit.
struct KeptBlocks<'a> {
    blocks: Vec<Cow<'a, RawValue>>,
    /// True if the last text among them is only a beginning.
    shortened: bool,
}

/// Returns the blocks that fit into `limit` tokens. Media behind a long text are kept: up to half of the
/// tokens are theirs.
fn fitting<'a>(blocks: &[&'a RawValue], limit: u64) -> KeptBlocks<'a> {
    let media_tokens = MEDIA_TOKENS.min(limit / 2);
    let media = blocks.iter().filter(|block| is_media(block)).count() as u64;
    let mut reserved = media.saturating_mul(media_tokens).min(limit / 2);
    let mut left = limit;
    let mut kept = KeptBlocks { blocks: Vec::new(), shortened: false };
    let (mut has_text, mut has_gap) = (false, false);
    for &block in blocks {
        let for_text = left.saturating_sub(reserved);
        if is_media(block) {
            let Some(rest) = left.checked_sub(media_tokens) else { continue };
            (left, reserved) = (rest, reserved.saturating_sub(media_tokens));
            kept.blocks.push(Cow::Borrowed(block));
        } else if has_gap {
            // It would stand behind what was left out.
        } else if tokens(block) <= for_text {
            left -= tokens(block);
            has_text = true;
            kept.blocks.push(Cow::Borrowed(block));
        } else {
            // A part of one more item would read as a whole one; alone it is better than nothing.
            let beginning = beginning(block, for_text).filter(|_| !has_text);
            (left, has_gap, kept.shortened) = (left.min(reserved), true, beginning.is_some());
            kept.blocks.extend(beginning.map(Cow::Owned));
        }
    }
    kept
}

/// Returns the beginning of a block of text, or of a resource that is text, of about this many tokens.
fn beginning(block: &RawValue, tokens: u64) -> Option<Box<RawValue>> {
    let object = Object::parse(block).ok()?;
    let shortened = if object.text("text").is_some() {
        cut_text(&object, tokens)?
    } else {
        let resource = Object::parse_valid(object.text("resource")?).ok()?;
        let mut edit = object.edit();
        edit.set("resource", cut_text(&resource, tokens)?);
        edit.finish().into_raw().ok()?.get().to_owned()
    };
    RawValue::from_string(shortened).ok()
}

/// Returns an object with the beginning of its `text`, cut between two characters, and a note of the rest.
fn cut_text(object: &Object<'_>, tokens: u64) -> Option<String> {
    if tokens < MIN_CUT_TOKENS {
        return None;
    }
    let text = object.get_str("text")?;
    let kept = usize::try_from(tokens.saturating_mul(4)).ok()?;
    let (end, _) = text.char_indices().nth(kept)?;
    let rest = text.get(end..)?.chars().count();
    let text = format!("{}… [cut here: {rest} of {} characters omitted]", text.get(..end)?, kept + rest);
    let mut edit = object.edit();
    edit.set("text", text::quoted(&text));
    Some(edit.finish().into_raw().ok()?.get().to_owned())
}

/// Returns the tokens of a block: of its text for a text block, of all its JSON for any other.
fn tokens(block: &RawValue) -> u64 {
    let text = Object::parse(block).ok().and_then(|object| object.get_str("text"));
    size(&text.unwrap_or(Cow::Borrowed(block.get())))
}

fn size(text: &str) -> u64 {
    (text.chars().count() as u64).div_ceil(4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn limited(result: &Value, limit: u64) -> Option<Value> {
        cut(&to_raw_value(result).unwrap(), limit).map(|raw| serde_json::from_str(raw.get()).unwrap())
    }

    fn text(tokens: usize) -> Value {
        json!({"type": "text", "text": "word".repeat(tokens)})
    }

    #[test]
    fn whole_items_are_kept_in_order_behind_a_notice() {
        for last in [10, 60] {
            let items = [text(60), text(60), text(last)];
            let result = json!({"content": items, "isError": false, "_meta": {"a": 1}});
            let cut = limited(&result, 100).unwrap();
            let content = cut["content"].as_array().unwrap();
            assert_eq!(content.len(), 2);
            let notice = content[0]["text"].as_str().unwrap();
            assert!(notice.contains("2 of 3 content items omitted."), "{notice}");
            assert_eq!(content[1], text(60));
            assert_eq!((&cut["isError"], &cut["_meta"]), (&json!(false), &json!({"a": 1})));
        }
        let cut = limited(&json!({"content": [text(120), text(10)]}), 100).unwrap();
        let content = cut["content"].as_array().unwrap();
        let notice = content[0]["text"].as_str().unwrap();
        assert!(notice.contains("1 of 2 content items omitted, the end of one cut off"), "{notice}");
        let beginning = format!("{}… [cut here: 80 of 480 characters omitted]", "word".repeat(100));
        assert_eq!(content[1]["text"], beginning);
    }

    #[test]
    fn a_long_text_keeps_its_beginning_up_to_a_whole_character() {
        for text in ["日本語🚀".repeat(4000), "word ".repeat(20_000)] {
            let result = json!({"content": [{"type": "text", "text": text}], "structuredContent": {"a": 1}});
            let cut = limited(&result, 1000).unwrap();
            let kept = cut["content"][1]["text"].as_str().unwrap();
            let (kept, note) = kept.split_once('…').unwrap();
            assert!(text.starts_with(kept) && kept.chars().count() == 4000, "{}", kept.len());
            assert!(note.contains(&format!("of {} characters omitted", text.chars().count())), "{note}");
            assert!(cut.get("structuredContent").is_none());
        }
        let resource = json!({"type": "resource", "resource": {"uri": "a:b", "text": "x".repeat(9000)}});
        let cut = limited(&json!({"content": [resource]}), 100).unwrap();
        let kept = &cut["content"][1]["resource"];
        assert_eq!(kept["uri"], "a:b");
        assert!(kept["text"].as_str().unwrap().starts_with(&"x".repeat(400)));
    }

    #[test]
    fn media_cost_the_same_whatever_their_size() {
        let data = "A".repeat(200_000);
        let image = json!({"type": "image", "data": data, "mimeType": "image/png"});
        let audio = json!({"type": "audio", "data": data, "mimeType": "audio/wav"});
        let embedded =
            json!({"type": "resource", "resource": {"uri": "a:b", "blob": data, "mimeType": "image/png"}});
        for media in [&image, &audio, &embedded] {
            assert_eq!(limited(&json!({"content": [media]}), 5000), None, "{}", media["type"]);
            assert_eq!(
                limited(&json!({"content": [text(10), media]}), 100),
                None,
                "a small limit lets one pass"
            );
        }
        let many = limited(&json!({"content": vec![&image; 5]}), 5000).unwrap();
        assert_eq!(many["content"].as_array().unwrap().len(), 1 + 3, "three of five fit");
        // A picture behind a long text is not lost.
        let both = limited(&json!({"content": [text(50_000), &image]}), 5000).unwrap();
        let kinds: Vec<_> = both["content"].as_array().unwrap().iter().map(|block| &block["type"]).collect();
        assert_eq!(kinds, ["text", "text", "image"]);
        let pdf = json!({"type": "resource", "resource": {"uri": "a:b", "blob": data, "mimeType": "application/pdf"}});
        assert_eq!(
            limited(&json!({"content": [pdf]}), 5000).unwrap()["content"].as_array().unwrap().len(),
            1
        );
    }

    #[test]
    fn what_fits_is_not_touched() {
        assert_eq!(limited(&json!({"content": [text(60), text(40)]}), 100), None);
        assert_eq!(
            limited(&json!({"content": [text(10)], "structuredContent": {"a": "x".repeat(80)}}), 100),
            None
        );
    }

    #[test]
    fn structured_content_goes_with_its_blocks_or_when_it_is_too_large() {
        let large = json!({"content": [text(1)], "structuredContent": {"a": "x".repeat(1000)}});
        let cut = limited(&large, 100).unwrap();
        assert!(cut.get("structuredContent").is_none());
        assert_eq!(cut["content"].as_array().unwrap().len(), 2);
        let small = json!({"content": [text(101)], "structuredContent": {"a": 1}});
        assert!(limited(&small, 100).unwrap().get("structuredContent").is_none());
    }
}
