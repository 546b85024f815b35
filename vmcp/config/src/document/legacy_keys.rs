//! Keys that are accepted besides those of the schema: of vmcp's first design, `mcp_client_proxy:
//! {lazy_connect: …}` for `proxy: {lazyConnect: …}`, `recommend_tools: {search_mode: …}` for `optimizer:
//! {recommendTools: {searchMode: …}}` and `metrics_retention_days`; of ToolHive, `clientSecretEnv: NAME` for
//! `clientSecret: ${NAME}`.

use crate::document::{Content, Node};

/// Ending of ToolHive's keys that name an environment variable with the value, and those keys without it.
const VARIABLE: &str = "Env";
const FROM_VARIABLE: [&str; 4] = ["headerValue", "clientSecret", "idpClientSecret", "targetClientSecret"];

/// Keys and values of a map, with the lines of the keys.
type Entries = Vec<(String, u32, Node)>;

/// Renames `mcp_client_proxy` to `proxy`, and its keys from snake_case to camelCase; moves the settings of
/// recommendations into `optimizer`; writes references for the names of variables in `outgoingAuth`.
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
    move_recommendations(entries);
    for (_, _, block) in entries.iter_mut().filter(|(name, ..)| name == "outgoingAuth") {
        refer_to_variables(block);
    }
}

/// Moves `recommend_tools` and `metrics_retention_days` to their places in `optimizer`. A setting that is in
/// both places stands there twice then, which is reported.
fn move_recommendations(entries: &mut Entries) {
    let is_moved =
        |name: &str| matches!(name, "recommend_tools" | "recommendTools" | "metrics_retention_days");
    let (moved, kept): (Entries, Entries) =
        std::mem::take(entries).into_iter().partition(|(name, ..)| is_moved(name));
    *entries = kept;
    for (name, line, block) in moved {
        match block.content {
            Content::Map(settings) if name != "metrics_retention_days" => {
                for (setting, line, value) in settings {
                    let setting = camel_case(&setting);
                    let path: &[&str] = match setting.as_str() {
                        "maxFallbacks" => &["optimizer"],
                        "embeddingModel" => &["optimizer", "embeddings", "openai"],
                        _ => &["optimizer", "recommendTools"],
                    };
                    let key = if setting == "embeddingModel" { "model".to_owned() } else { setting };
                    put(entries, path, (key, line, value));
                }
            }
            content => put(entries, &["optimizer"], (camel_case(&name), line, Node { content, ..block })),
        }
    }
}

/// Adds an entry to the map at a path of keys, which is made where the file has none. Leaves it out where the
/// file has something else, which is reported.
fn put(entries: &mut Entries, path: &[&str], entry: (String, u32, Node)) {
    let Some((first, rest)) = path.split_first() else { return entries.push(entry) };
    let line = entry.1;
    let found = entries.iter().position(|(name, ..)| name == first);
    let at = found.unwrap_or_else(|| {
        let map = Node { line, content: Content::Map(Vec::new()), span: None };
        entries.push(((*first).to_owned(), line, map));
        entries.len() - 1
    });
    let Some((_, _, node)) = entries.get_mut(at) else { return };
    if matches!(node.content, Content::Null) {
        node.content = Content::Map(Vec::new());
    }
    if let Content::Map(inner) = &mut node.content {
        put(inner, rest, entry);
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
