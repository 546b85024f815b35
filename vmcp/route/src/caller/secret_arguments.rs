//! Secrets among the arguments of add_mcp_server and install_server: recognized where they may not be, kept
//! out of records.

use std::borrow::Cow;

use serde_json::Value;
use vmcp_config::MASK;
use vmcp_config::secret_signs::{is_option, is_secret_name, looks_secret, password_of_url};
use vmcp_engine::optim::names::OptimTool;

/// Fields whose values may be secrets.
const VALUES: [&str; 3] = ["env", "headers", "values"];

/// True if a setting of this name with this value is a secret.
pub(crate) fn is_secret(name: &str, value: &str) -> bool {
    !value.is_empty() && (is_secret_name(name) || looks_secret(value) || password_of_url(value).is_some())
}

/// True if an argument of a program is a secret, or has one: `--token=x`, `x` after `--token`, or a header
/// `Authorization: x`, also behind `--header=`.
pub(crate) fn is_secret_argument(before: &str, argument: &str) -> bool {
    let header =
        argument.split_once('=').filter(|(name, _)| is_option(name)).map_or(argument, |(_, text)| text);
    let header = header.split_once(':').filter(|(_, value)| !value.starts_with("//"));
    if header.is_some_and(|(name, value)| !value.trim().is_empty() && is_secret_name(name.trim())) {
        return true;
    }
    match argument.split_once('=').filter(|(name, _)| is_option(name)) {
        Some((name, value)) => is_secret(name.trim_start_matches('-'), value),
        None if argument.starts_with('-') => false,
        None => {
            let option = before.strip_prefix('-').filter(|_| !before.contains('='));
            is_secret(option.unwrap_or_default().trim_start_matches('-'), argument)
        }
    }
}

/// Returns the arguments of a call of `tool` for records: values of variables and headers, and whatever else
/// may be a secret, are masked. `None` for arguments that cannot be read.
pub(crate) fn recorded(tool: OptimTool, arguments: &str) -> Option<Cow<'_, str>> {
    let shown: &[&str] = match tool {
        OptimTool::AddMcpServer | OptimTool::InstallServer => &SHOWN,
        // Prompts and transcripts are the person's own.
        OptimTool::CallHook => &SHOWN_OF_HOOKS,
        _ => return Some(Cow::Borrowed(arguments)),
    };
    let Ok(Value::Object(mut fields)) = serde_json::from_str(arguments) else { return None };
    for (name, field) in &mut fields {
        match field {
            Value::Object(values) if VALUES.contains(&name.as_str()) => {
                values.values_mut().for_each(|value| *value = MASK.into());
            }
            Value::Array(words) if name == "args" => {
                let mut before = String::new();
                for word in words {
                    let text = word.as_str().map_or_else(|| word.to_string(), str::to_owned);
                    if is_secret_argument(&before, &text) {
                        *word = MASK.into();
                    }
                    before = text;
                }
            }
            Value::String(text) if shown.contains(&name.as_str()) && !may_hold_secret(text) => {}
            Value::Bool(_) | Value::Null => {}
            other => *other = MASK.into(),
        }
    }
    Some(Cow::Owned(Value::Object(fields).to_string()))
}

/// Fields of call_hook whose texts are shown.
const SHOWN_OF_HOOKS: [&str; 2] = ["hook_type", "source"];
/// Fields whose texts are shown.
const SHOWN: [&str; 6] = ["name", "transport", "url", "command", "server", "via"];

/// True for a URL with credentials, a query or a token in its path, for a text that looks like a secret, and
/// for several words, which may be a whole command line.
fn may_hold_secret(text: &str) -> bool {
    let is_token = |part: &str| {
        looks_secret(part) || part.split_once('=').is_some_and(|(name, value)| is_secret(name, value))
    };
    looks_secret(text)
        || text.contains(char::is_whitespace)
        || (text.contains("://") && (text.contains(['@', '?']) || text.split(['/', ';']).any(is_token)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_an_added_server_hold_none_of_its_secrets() {
        let arguments = r#"{"name":"a","env":{"X":"hunter2"},"headers":{"Y":"hunter2"},"enabled":true,
            "args":["run","--token","hunter2","--key=hunter2"],"url":"https://me:hunter2@a.example/"}"#;
        let recorded = recorded(OptimTool::AddMcpServer, arguments).unwrap();
        assert!(!recorded.contains("hunter2"), "{recorded}");
        assert!(recorded.contains(r#""name":"a""#) && recorded.contains(r#""X":"***""#), "{recorded}");
        assert!(recorded.contains(r#"["run","--token","***","***"]"#), "{recorded}");
        for odd in [
            r#"{"env":"hunter2"}"#,
            r#"{"headers":["hunter2"]}"#,
            r#"{"args":{"a":"hunter2"}}"#,
            r#"{"args":["--header","Authorization: Bearer hunter2"]}"#,
            r#"{"args":["--header=Authorization: Bearer hunter2=="]}"#,
            r#"{"args":"--token hunter2"}"#,
            r#"{"command":"npx -y x --token hunter2"}"#,
            r#"{"token":"hunter2"}"#,
            r#"{"url":"https://a.example/s/sk-hunter2hunter2/mcp"}"#,
            r#"{"url":"https://a.example/mcp;key=hunter2"}"#,
            r#"{"url":"https://a.example/mcp?x=hunter2"}"#,
            "x",
        ] {
            let recorded = super::recorded(OptimTool::AddMcpServer, odd).unwrap_or_default();
            assert!(!recorded.contains("hunter2"), "{recorded}");
        }
        let plain = r#"{"url":"https://mcp.example.com/v1/mcp"}"#;
        assert_eq!(super::recorded(OptimTool::AddMcpServer, plain).as_deref(), Some(plain));
    }

    #[test]
    fn of_a_hook_the_type_and_the_client_are_recorded() {
        let arguments =
            r#"{"hook_type":"Stop","source":"codex","params":{"prompt":"hunter2"},"x":"hunter2"}"#;
        let recorded = recorded(OptimTool::CallHook, arguments).unwrap();
        assert_eq!(recorded, r#"{"hook_type":"Stop","source":"codex","params":"***","x":"***"}"#);
    }

    #[test]
    fn arguments_of_other_tools_are_recorded_as_they_are() {
        let arguments = r#"{"env":{"X":"1"}}"#;
        assert_eq!(recorded(OptimTool::FindTool, arguments).as_deref(), Some(arguments));
    }
}
