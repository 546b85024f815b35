//! Keys that are accepted besides those of the schema: of vmcp's first design, `mcp_client_proxy:
//! {lazy_connect: …}` for `proxy: {lazyConnect: …}`, and of ToolHive, `clientSecretEnv: NAME` for
//! `clientSecret: ${NAME}`.

use crate::document::{Content, Node};

/// Ending of ToolHive's keys that name an environment variable with the value, and those keys without it.
const VARIABLE: &str = "Env";
const FROM_VARIABLE: [&str; 4] = ["headerValue", "clientSecret", "idpClientSecret", "targetClientSecret"];

/// Renames `mcp_client_proxy` to `proxy`, and its keys from snake_case to camelCase; writes references for
/// the names of variables in `outgoingAuth`.
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
    for (_, _, block) in entries.iter_mut().filter(|(name, ..)| name == "outgoingAuth") {
        refer_to_variables(block);
    }
}

fn refer_to_variables(node: &mut Node) {
    let Content::Map(entries) = &mut node.content else { return };
    for (key, _, value) in entries {
        let wanted = key.strip_suffix(VARIABLE).filter(|wanted| FROM_VARIABLE.contains(wanted));
        match (wanted.map(str::to_owned), &mut value.content) {
            (Some(wanted), Content::Text(name)) => {
                *name = format!("${{{name}}}");
                *key = wanted;
            }
            _ => refer_to_variables(value),
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
