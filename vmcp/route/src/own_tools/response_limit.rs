//! Token limit of a call's result (`optimizer.maxToolResponseTokens`): protects a model's context from an
//! oversized answer.

use std::borrow::Cow;

use serde_json::value::{RawValue, to_raw_value};
use vmcp_json::object::Object;

use super::tool_result::TextBlock;

/// Cuts a result to `limit` tokens: keeps as many whole content blocks as fit, in order, after a notice that
/// names the omission. Returns `None` if the result fits, or is not understood.
pub(super) fn cut(result: &RawValue, limit: u64) -> Option<Box<RawValue>> {
    // A token is about four characters, so a result of at most four bytes per token fits without parsing.
    if (result.get().len() as u64).div_ceil(4) <= limit {
        return None;
    }
    let object = Object::parse(result).ok()?;
    let blocks: Vec<&RawValue> = match object.get("content") {
        Some(content) => serde_json::from_str(content.get()).ok()?,
        None => Vec::new(),
    };
    let mut left = limit;
    let fits = |block: &&&RawValue| match left.checked_sub(tokens(block)) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    let kept: Vec<&RawValue> = blocks.iter().take_while(fits).copied().collect();
    let omitted = blocks.len() - kept.len();
    // Structured content repeats the blocks: it goes with any of them, and when it is too large itself.
    let structured = object.get("structuredContent").filter(|json| omitted > 0 || size(json.get()) > limit);
    if omitted == 0 && structured.is_none() {
        return None;
    }
    let notice = format!(
        "[Response truncated to {limit} tokens (maxToolResponseTokens): {omitted} of {} content items omitted{}. \
         Ask for less: filter, page, or name the fields that you need.]",
        blocks.len(),
        if structured.is_some() { ", structured content omitted" } else { "" }
    );
    let notice = to_raw_value(&TextBlock::new(&notice)).ok()?;
    let content = to_raw_value(&std::iter::once(&*notice).chain(kept).collect::<Vec<_>>()).ok()?;
    let mut edit = object.edit();
    edit.set("content", content.get().to_owned());
    if structured.is_some() {
        edit.remove("structuredContent");
    }
    edit.finish().into_raw().ok()
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
        let result = json!({"content": [text(60), text(60), text(10)], "isError": false, "_meta": {"a": 1}});
        let cut = limited(&result, 100).unwrap();
        let content = cut["content"].as_array().unwrap();
        assert_eq!(content.len(), 2);
        assert!(
            content[0]["text"].as_str().unwrap().contains("2 of 3 content items omitted"),
            "{}",
            content[0]
        );
        assert_eq!(content[1], text(60));
        assert_eq!((&cut["isError"], &cut["_meta"]), (&json!(false), &json!({"a": 1})));
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

    #[test]
    fn one_huge_item_leaves_the_notice_alone() {
        let image =
            json!({"content": [{"type": "image", "data": "A".repeat(10_000), "mimeType": "image/png"}]});
        assert_eq!(limited(&image, 100).unwrap()["content"].as_array().unwrap().len(), 1);
    }
}
