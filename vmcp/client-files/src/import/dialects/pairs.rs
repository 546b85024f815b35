//! Variables and headers that a file has as a list in place of a map.

use serde_json::{Map, Value};

/// Returns the variables or headers of a list: `NAME=value`, `Name: value`, objects with `name` or `key` and
/// `value`, or objects of pairs. A name without a value, as in files of Docker, is that of a variable of the
/// client.
pub(super) fn of_list(items: &[Value]) -> Map<String, Value> {
    let reference = |name: &str| Value::from(format!("${{{name}}}"));
    let mut found = Map::new();
    for item in items {
        match item {
            Value::String(text) => {
                let (name, value) = match text.find(['=', ':']).and_then(|at| text.split_at_checked(at)) {
                    Some((name, value)) => (name.trim(), after_sign(value).into()),
                    None => (text.trim(), reference(text.trim())),
                };
                found.insert(name.to_owned(), value);
            }
            Value::Object(pair) => {
                let name = ["name", "key"].iter().find_map(|key| pair.get(*key)?.as_str());
                match (name, pair.get("value")) {
                    (Some(name), Some(value)) => {
                        found.insert(name.to_owned(), value.clone());
                    }
                    (Some(name), None) => {
                        found.insert(name.to_owned(), reference(name));
                    }
                    (None, _) => found.extend(pair.clone()),
                }
            }
            _ => {}
        }
    }
    found
}

/// Returns the value behind `=`, as it is, or behind `:`, without blanks in front.
fn after_sign(text: &str) -> &str {
    text.strip_prefix('=').unwrap_or_else(|| text.strip_prefix(':').unwrap_or(text).trim_start())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Reading, Server, read};
    use super::*;

    fn read_server(server: &Value) -> Result<Server, String> {
        read(server, Reading::default(), &mut Vec::new())
    }

    #[test]
    fn lists_of_variables_and_nested_transports_are_read() {
        let alone = json!({ "key": "E", "secret": true });
        let env = json!(["A=1=2", "B", { "name": "C", "value": 3 }, { "D": "4" }, alone, 5]);
        let env = read_server(&json!({ "command": "x", "env": env })).unwrap().env;
        let expected = json!({ "A": "1=2", "B": "${B}", "C": 3, "D": "4", "E": "${E}" });
        assert_eq!(json!(env), expected);
        let headers = json!(["Authorization: Bearer t", { "name": "X-A", "value": "a" }]);
        let headers = read_server(&json!({ "url": "https://a", "headers": headers })).unwrap().headers;
        assert_eq!((&*headers["Authorization"], &*headers["X-A"]), ("Bearer t", "a"));
        assert!(read_server(&json!({ "command": "x", "env": [], "headers": [] })).unwrap().env.is_empty());
        let nested = json!({ "transport": { "type": "stdio", "command": "npx", "args": ["-y", "x"] } });
        let nested = read_server(&nested).unwrap();
        assert_eq!((nested.kind.as_deref(), nested.command.as_deref()), (Some("stdio"), Some("npx")));
    }
}
