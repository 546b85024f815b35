//! `init_project`: makes a folder a project by a file with its id. A folder that is one, also of the Gobby
//! daemon, stays as it is.

use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::config_file::secret_store::write_private;

/// File of a project, below its folder.
const FILE: &str = ".vmcp/project.json";
/// File of a project of the Gobby daemon.
const GOBBY_FILE: &str = ".gobby/project.json";
/// Most characters of a name or URL.
const MAX_CHARS: usize = 256;

/// Makes `folder` a project, and returns the report. `arguments`: `name` and `github_url`, both optional.
pub(super) fn init(folder: &Path, arguments: &Value) -> Value {
    match init_or_reason(folder, arguments) {
        Ok(report) => report,
        Err(reason) => json!({ "success": false, "error": reason, "message": reason }),
    }
}

fn init_or_reason(folder: &Path, arguments: &Value) -> Result<Value, String> {
    let name = given(arguments, "name")?;
    let url = given(arguments, "github_url")?;
    for known in [FILE, GOBBY_FILE] {
        let path = folder.join(known);
        match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(format!("{}: {error}", path.display())),
            Ok(text) => {
                let project: Value = serde_json::from_str(&text)
                    .map_err(|_| format!("{} is damaged; mend or remove it", path.display()))?;
                return Ok(report(&project, &path, "already initialized"));
            }
        }
    }
    let of_folder = || folder.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.or_else(of_folder).ok_or("`name` is missing, and the folder has none")?;
    let project = json!({
        "id": Uuid::new_v4().to_string(), "name": name,
        "created_at": humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        "github_url": url.or_else(|| web_url(&origin(folder)?)),
    });
    let path = folder.join(FILE);
    let text = serde_json::to_string_pretty(&project).map_err(|error| error.to_string())?;
    let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    made.and_then(|()| write_private(&path, &(text + "\n")))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(report(&project, &path, "initialized successfully"))
}

fn report(project: &Value, path: &Path, what: &str) -> Value {
    let name = project["name"].as_str().unwrap_or_default();
    json!({
        "success": true, "message": format!("Project '{name}' {what}"), "project": project,
        "paths": { "project_json": path },
    })
}

/// Returns an argument; empty text counts as absent.
fn given(arguments: &Value, key: &str) -> Result<Option<String>, String> {
    match arguments.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.chars().count() > MAX_CHARS => {
            Err(format!("`{key}` has more than {MAX_CHARS} characters"))
        }
        Some(Value::String(text)) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
        Some(_) => Err(format!("`{key}` must be text")),
    }
}

/// Returns the URL of git's remote `origin`; `None` without git or without one.
fn origin(folder: &Path) -> Option<String> {
    let asked =
        Command::new("git").args(["config", "--get", "remote.origin.url"]).current_dir(folder).output();
    let text = asked.ok().filter(|output| output.status.success())?.stdout;
    Some(String::from_utf8(text).ok()?.trim().to_owned()).filter(|url| !url.is_empty())
}

/// Returns the address for a browser of a remote: without credentials, `.git` and the form of ssh.
fn web_url(remote: &str) -> Option<String> {
    let rest = match remote.split_once("://") {
        Some(("https" | "http" | "ssh" | "git", rest)) => rest.to_owned(),
        Some(_) => return None,
        None => remote.replacen(':', "/", 1),
    };
    let (host, path) = rest.split_once('/')?;
    let host = host.rsplit('@').next().filter(|host| host.contains('.'))?;
    let path = path.trim_end_matches('/').trim_end_matches(".git");
    Some(format!("https://{host}/{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_becomes_a_project_once() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("demo");
        std::fs::create_dir_all(&folder).unwrap();
        let first = init(&folder, &json!({"github_url": "https://github.com/a/demo"}));
        assert_eq!(first["message"], "Project 'demo' initialized successfully");
        assert_eq!(first["project"]["github_url"], "https://github.com/a/demo");
        assert!(Uuid::parse_str(first["project"]["id"].as_str().unwrap()).is_ok());
        let text = std::fs::read_to_string(folder.join(FILE)).unwrap();
        let second = init(&folder, &json!({"name": "other"}));
        assert_eq!(second["message"], "Project 'demo' already initialized");
        assert_eq!((&second["project"], &second["paths"]), (&first["project"], &first["paths"]));
        assert_eq!(std::fs::read_to_string(folder.join(FILE)).unwrap(), text);

        let gobby = parent.path().join("old");
        std::fs::create_dir_all(gobby.join(".gobby")).unwrap();
        std::fs::write(gobby.join(GOBBY_FILE), r#"{"id":"7","name":"old"}"#).unwrap();
        assert_eq!(init(&gobby, &json!({}))["project"]["id"], "7");
        assert!(!gobby.join(FILE).exists());
        let refused = init(&folder, &json!({"name": "n".repeat(MAX_CHARS + 1)}));
        assert_eq!(refused["error"], "`name` has more than 256 characters");
    }

    #[test]
    fn remotes_become_addresses_without_credentials() {
        let expected = Some("https://github.com/a/demo".to_owned());
        for remote in [
            "git@github.com:a/demo.git",
            "https://me:t0ken@github.com/a/demo.git",
            "ssh://git@github.com/a/demo",
        ] {
            assert_eq!(web_url(remote), expected, "{remote}");
        }
        assert_eq!(web_url("/srv/git/demo"), None);
        assert_eq!(web_url("file:///srv/git/demo"), None);
    }
}
