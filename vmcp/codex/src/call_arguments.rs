//! Arguments of the tools: [`TurnArguments`], [`ListArguments`], [`ArchiveArguments`]. An error names the
//! argument and its limit.

use serde_json::{Map, Value};

/// Most bytes of a prompt.
const MAX_PROMPT_BYTES: usize = 1024 * 1024;
/// Most bytes of a thread's id or of a model's name.
const MAX_NAME_BYTES: usize = 128;
/// Most bytes of a path or of a cursor.
const MAX_PATH_BYTES: usize = 4096;
/// Threads of a page without `limit`.
pub(crate) const DEFAULT_THREADS: u64 = 25;
/// Most threads of a page.
pub(crate) const MAX_THREADS: u64 = 100;

/// Rights of the commands that Codex runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sandbox {
    ReadOnly,
    WorkspaceWrite,
    DangerFullAccess,
}

impl Sandbox {
    /// Reads either spelling: `readOnly` or Codex's own `read-only`.
    fn read(text: &str) -> Option<Sandbox> {
        match text {
            "readOnly" | "read-only" => Some(Sandbox::ReadOnly),
            "workspaceWrite" | "workspace-write" => Some(Sandbox::WorkspaceWrite),
            "dangerFullAccess" | "danger-full-access" => Some(Sandbox::DangerFullAccess),
            _ => None,
        }
    }

    /// Returns the value of `sandbox` in `thread/start` and `thread/resume`.
    pub(crate) fn mode(self) -> &'static str {
        match self {
            Sandbox::ReadOnly => "read-only",
            Sandbox::WorkspaceWrite => "workspace-write",
            Sandbox::DangerFullAccess => "danger-full-access",
        }
    }

    /// Returns the type of `sandboxPolicy` in `turn/start`.
    pub(crate) fn policy(self) -> &'static str {
        match self {
            Sandbox::ReadOnly => "readOnly",
            Sandbox::WorkspaceWrite => "workspaceWrite",
            Sandbox::DangerFullAccess => "dangerFullAccess",
        }
    }
}

/// Arguments of `codex`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TurnArguments {
    pub(crate) prompt: String,
    pub(crate) thread_id: Option<String>,
    pub(crate) cwd: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) sandbox: Sandbox,
    /// The policy in Codex's spelling: `never`, `on-request` or `untrusted`.
    pub(crate) approval_policy: &'static str,
}

/// Arguments of `codex_list_threads`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListArguments {
    pub(crate) limit: u64,
    pub(crate) cursor: Option<String>,
}

/// Arguments of `codex_archive_thread`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArchiveArguments {
    pub(crate) thread_id: String,
}

impl TurnArguments {
    pub(crate) fn read(given: &Map<String, Value>, allow_dangerous: bool) -> Result<TurnArguments, String> {
        known(given, &["prompt", "thread_id", "cwd", "model", "sandbox", "approval_policy"])?;
        let prompt = text(given, "prompt", MAX_PROMPT_BYTES)?.ok_or("prompt is required")?;
        let sandbox = match text(given, "sandbox", MAX_NAME_BYTES)? {
            None => Sandbox::ReadOnly,
            Some(text) => Sandbox::read(&text)
                .ok_or("sandbox must be one of readOnly, workspaceWrite, dangerFullAccess")?,
        };
        if sandbox == Sandbox::DangerFullAccess && !allow_dangerous {
            return Err("sandbox dangerFullAccess is off; choose readOnly or workspaceWrite, or ask the \
                        administrator for `codex.allowDangerous: true` on this backend"
                .to_owned());
        }
        let approval_policy = match text(given, "approval_policy", MAX_NAME_BYTES)?.as_deref() {
            Some("never") => "never",
            None | Some("onRequest" | "on-request") => "on-request",
            // Codex knows no stricter policy than `untrusted`.
            Some("unlessTrusted" | "untrusted" | "always") => "untrusted",
            Some(_) => {
                return Err(
                    "approval_policy must be one of never, onRequest, unlessTrusted, always".to_owned()
                );
            }
        };
        let thread_id = thread_id(given)?;
        let cwd = text(given, "cwd", MAX_PATH_BYTES)?;
        let model = text(given, "model", MAX_NAME_BYTES)?;
        Ok(TurnArguments { prompt, thread_id, cwd, model, sandbox, approval_policy })
    }
}

impl ListArguments {
    pub(crate) fn read(given: &Map<String, Value>) -> Result<ListArguments, String> {
        known(given, &["limit", "cursor"])?;
        let limit = match given.get("limit").filter(|limit| !limit.is_null()) {
            None => DEFAULT_THREADS,
            Some(limit) => limit
                .as_u64()
                .filter(|limit| (1..=MAX_THREADS).contains(limit))
                .ok_or_else(|| format!("limit must be a whole number from 1 to {MAX_THREADS}"))?,
        };
        Ok(ListArguments { limit, cursor: text(given, "cursor", MAX_PATH_BYTES)? })
    }
}

impl ArchiveArguments {
    pub(crate) fn read(given: &Map<String, Value>) -> Result<ArchiveArguments, String> {
        known(given, &["thread_id"])?;
        Ok(ArchiveArguments { thread_id: thread_id(given)?.ok_or("thread_id is required")? })
    }
}

fn known(given: &Map<String, Value>, names: &[&str]) -> Result<(), String> {
    let unknown = given.keys().find(|name| !names.contains(&name.as_str()));
    let Some(unknown) = unknown else { return Ok(()) };
    let shown: String = unknown.chars().take(64).collect();
    Err(format!("unknown argument `{shown}`; known are {}", names.join(", ")))
}

/// Returns an argument that is a text with more than white space; null counts as absent.
fn text(given: &Map<String, Value>, name: &str, limit: usize) -> Result<Option<String>, String> {
    let value = match given.get(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(value)) => value,
        Some(_) => return Err(format!("{name} must be a text")),
    };
    if value.len() > limit {
        return Err(format!("{name} is too long: {} bytes, the limit is {limit}", value.len()));
    }
    if value.trim().is_empty() {
        return Err(format!("{name} is empty"));
    }
    Ok(Some(value.clone()))
}

/// Returns the id of a thread. Codex also takes paths in place of ids elsewhere, so only ids pass. Codex
/// reads a UUID in any spelling, but owners and busy threads are compared as text: only Codex's own spelling
/// passes.
fn thread_id(given: &Map<String, Value>) -> Result<Option<String>, String> {
    let Some(id) = text(given, "thread_id", MAX_NAME_BYTES)? else { return Ok(None) };
    let is_id = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    if !id.bytes().all(is_id) {
        return Err("thread_id may hold lower-case letters, digits, `-` and `_`".to_owned());
    }
    if id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err("thread_id lacks its hyphens; write it as an earlier result did".to_owned());
    }
    Ok(Some(id))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn turn(given: &Value, allow_dangerous: bool) -> Result<TurnArguments, String> {
        TurnArguments::read(given.as_object().unwrap(), allow_dangerous)
    }

    #[test]
    fn defaults_are_the_safe_ones_and_both_spellings_are_read() {
        let read = turn(&json!({"prompt": "go", "thread_id": null}), false).unwrap();
        assert_eq!((read.sandbox, read.approval_policy), (Sandbox::ReadOnly, "on-request"));
        for (spelled, sandbox) in [
            ("workspaceWrite", Sandbox::WorkspaceWrite),
            ("workspace-write", Sandbox::WorkspaceWrite),
            ("danger-full-access", Sandbox::DangerFullAccess),
        ] {
            assert_eq!(turn(&json!({"prompt": "go", "sandbox": spelled}), true).unwrap().sandbox, sandbox);
        }
        let always = turn(&json!({"prompt": "go", "approval_policy": "always"}), false).unwrap();
        assert_eq!(always.approval_policy, "untrusted");
    }

    #[test]
    fn one_spelling_of_a_thread_passes() {
        let read = |id: &str| turn(&json!({"prompt": "go", "thread_id": id}), false);
        let own = "0190a000-0000-7000-8000-00000000abcd";
        assert_eq!(read(own).unwrap().thread_id.as_deref(), Some(own));
        for other in [own.to_uppercase(), own.replace('-', ""), own.to_uppercase().replace('-', "")] {
            assert!(read(&other).unwrap_err().starts_with("thread_id "), "{other}");
            let given = json!({"thread_id": other});
            assert!(ArchiveArguments::read(given.as_object().unwrap()).is_err(), "{other}");
        }
    }

    #[test]
    fn an_error_names_the_argument_and_the_limit() {
        for (given, expected) in [
            (json!({}), "prompt is required"),
            (json!({"prompt": " "}), "prompt is empty"),
            (json!({"prompt": 1}), "prompt must be a text"),
            (json!({"prompt": "go", "shell": "sh"}), "unknown argument `shell`"),
            (json!({"prompt": "go", "sandbox": "none"}), "readOnly, workspaceWrite, dangerFullAccess"),
            (json!({"prompt": "go", "sandbox": "dangerFullAccess"}), "codex.allowDangerous"),
            (json!({"prompt": "go", "approval_policy": "no"}), "never, onRequest, unlessTrusted, always"),
            (json!({"prompt": "go", "thread_id": "../x"}), "thread_id may hold"),
            (json!({"prompt": "go", "model": "m".repeat(129)}), "129 bytes, the limit is 128"),
        ] {
            let error = turn(&given, false).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        for limit in [json!(0), json!(101), json!("2"), json!(1.5)] {
            let given = json!({"limit": limit});
            let error = ListArguments::read(given.as_object().unwrap()).unwrap_err();
            assert_eq!(error, "limit must be a whole number from 1 to 100");
        }
    }
}
