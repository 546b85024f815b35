//! Keys of vmcp's first design, still accepted: `mcp_client_proxy: {lazy_connect: …}` for `proxy:
//! {lazyConnect: …}`.

use crate::document::{Content, Node};

/// Renames `mcp_client_proxy` to `proxy`, and its keys from snake_case to camelCase.
pub(crate) fn translate(document: &mut Node) {
    let Content::Map(entries) = &mut document.content else { return };
    for (name, _, block) in entries.iter_mut().filter(|(name, ..)| name == "mcp_client_proxy") {
        "proxy".clone_into(name);
        if let Content::Map(settings) = &mut block.content {
            for (setting, ..) in settings {
                *setting = camel_case(setting);
            }
        }
    }
}

fn camel_case(snake: &str) -> String {
    let mut upper = false;
    let mut camel = String::with_capacity(snake.len());
    for c in snake.chars() {
        if c == '_' {
            upper = true;
        } else {
            camel.push(if upper { c.to_ascii_uppercase() } else { c });
            upper = false;
        }
    }
    camel
}
