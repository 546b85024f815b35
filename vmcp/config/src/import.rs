//! Import of other clients' files: `mcpServers` (Claude, Cursor, Windsurf) or `servers` (VS Code), as JSON
//! with comments. Secrets leave the file for environment variables.

mod jsonc;
mod secrets;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_saphyr::FlowSeq;

use self::secrets::Secrets;
use crate::document::MAX_BYTES;
use crate::sections::backend::{RESERVED_NAMES, normalize_name};
use crate::values::headers::is_reserved;
use crate::values::secret::Secret;

/// Result of [`import`].
#[derive(Debug)]
pub struct Imported {
    /// Text of `vmcp.yaml`, commented.
    pub yaml: String,
    /// Names of the backends, after normalization.
    pub backends: Vec<String>,
    /// Changes that a person should know of: settings renamed, left out or moved. They are comments in the
    /// YAML too.
    pub notes: Vec<String>,
    /// Secrets that were moved out of the file, by the environment variable that the YAML refers to.
    pub variables: BTreeMap<String, Secret>,
}

/// Reason why a file cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file is larger than a configuration may be.
    #[error("the file is larger than {MAX_BYTES} bytes")]
    TooLarge,
    /// The file is not JSON, even with comments allowed.
    #[error("not readable as JSON: {0}")]
    NotJson(#[from] serde_json::Error),
    /// The file has neither of the known shapes.
    #[error("found no servers; expected an object `mcpServers` (Claude, Cursor) or `servers` (VS Code)")]
    NoServers,
}

/// One server of the other client's file, in any of the dialects.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Server {
    command: Option<String>,
    args: Vec<String>,
    env: BTreeMap<String, Value>,
    cwd: Option<String>,
    #[serde(rename = "type", alias = "transport")]
    kind: Option<String>,
    #[serde(alias = "serverUrl")]
    url: Option<String>,
    headers: BTreeMap<String, String>,
    disabled: bool,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// One entry of `backends`, as it is written.
#[derive(Serialize)]
struct Entry {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<FlowSeq<Vec<String>>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    env: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transport: Option<&'static str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    enabled: Option<bool>,
}

/// Converts another client's file; the first comment names `source_name`.
///
/// A server that cannot be converted is left out with a note.
///
/// # Examples
///
/// ```
/// use vmcp_config::import::import;
///
/// let file = r#"{ "mcpServers": { "Time": { "command": "uvx", "args": ["mcp-server-time"] } } }"#;
/// let imported = import(file, "claude.json")?;
/// assert_eq!(imported.backends, ["time"]);
/// assert!(imported.yaml.contains("command: [uvx, mcp-server-time]"));
/// # Ok::<(), vmcp_config::import::ImportError>(())
/// ```
pub fn import(text: &str, source_name: &str) -> Result<Imported, ImportError> {
    if text.len() > MAX_BYTES {
        return Err(ImportError::TooLarge);
    }
    let file: Value = serde_json::from_str(&jsonc::to_json(text))?;
    let servers = ["/mcpServers", "/servers", "/mcp/servers"]
        .iter()
        .find_map(|place| file.pointer(place)?.as_object())
        .ok_or(ImportError::NoServers)?;

    let mut secrets = Secrets::default();
    let mut names = BTreeSet::new();
    let mut all_notes = Vec::new();
    let mut backends = String::new();
    for (original, server) in servers {
        let mut notes = Vec::new();
        let name = unused_name(original, &names);
        let entry = match Server::deserialize(server) {
            Ok(server) => convert(&name, server, &mut secrets, &mut notes),
            Err(error) => Err(error.to_string()),
        };
        if let Ok(entry) = &entry {
            if name != *original {
                notes.insert(0, format!("renamed from {original:?}"));
            }
            names.insert(name.clone());
            write_entry(&mut backends, entry, &notes);
        }
        all_notes.extend(notes.into_iter().map(|note| format!("{name}: {note}")));
        if let Err(reason) = entry {
            let note = format!("{original:?} left out: {reason}");
            backends.push_str(&comment("  ", &note));
            all_notes.push(note);
        }
    }
    let title = comment(
        "",
        &format!("Imported from {source_name}. `vmcp validate` checks it; `vmcp init` shows every setting."),
    );
    let list =
        if names.is_empty() { format!("backends: []\n{backends}") } else { format!("backends:\n{backends}") };
    Ok(Imported {
        yaml: title + &list,
        backends: names.into_iter().collect(),
        notes: all_notes,
        variables: secrets.variables,
    })
}

/// Returns a legal name that is not taken yet, with a number if need be.
fn unused_name(original: &str, taken: &BTreeSet<String>) -> String {
    let name = normalize_name(original).unwrap_or_else(|| "server".to_owned());
    let name = if RESERVED_NAMES.contains(&name.as_str()) { format!("{name}-server") } else { name };
    // Cut at 58 characters, so that a number of up to four digits fits into the 63 of a name.
    let numbered = (2..).map(|n| normalize_name(&format!("{name:.58}-{n}")).unwrap_or_default());
    std::iter::once(name.clone()).chain(numbered).find(|name| !taken.contains(name)).unwrap_or(name)
}

fn convert(
    name: &str,
    server: Server,
    secrets: &mut Secrets,
    notes: &mut Vec<String>,
) -> Result<Entry, String> {
    let kind = server.kind.as_deref().map(str::to_ascii_lowercase);
    let transport = match kind.as_deref() {
        None | Some("stdio" | "http" | "streamable-http" | "streamablehttp" | "streamable_http") => None,
        Some("sse") => Some("sse"),
        Some(other) => return Err(format!("transport {other:?} is not supported")),
    };
    let enabled = server.disabled.then_some(false);
    let ignorable = ["description", "gallery", "version", "autoApprove", "alwaysAllow", "trust"];
    let others: Vec<_> =
        server.others.keys().filter(|key| !ignorable.contains(&key.as_str())).cloned().collect();
    if !others.is_empty() {
        notes.push(format!("not taken over: {}", others.join(", ")));
    }
    match (server.command, server.url) {
        (Some(command), _) => {
            let mut words = vec![secrets::plain(&command)];
            words.extend(secrets.arguments(name, &server.args, notes));
            let env = server.env.into_iter().map(|(key, value)| {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let value = secrets.value(name, &key, &key, &value, notes);
                (key, value)
            });
            Ok(Entry {
                name: name.to_owned(),
                command: Some(FlowSeq(words)),
                env: env.collect(),
                cwd: server.cwd.map(|cwd| secrets::plain(&cwd)),
                url: None,
                transport: None,
                headers: BTreeMap::new(),
                enabled,
            })
        }
        (None, Some(url)) => {
            let (reserved, headers): (Vec<_>, Vec<_>) =
                server.headers.into_iter().partition(|(key, _)| is_reserved(&key.to_ascii_lowercase()));
            notes.extend(
                reserved.iter().map(|(key, _)| format!("header {key} left out: vmcp sets it itself")),
            );
            let header = |(key, value): (String, String)| {
                let value = secrets.value(name, &format!("{name}_{key}"), &key, &value, notes);
                (key, value)
            };
            let headers = headers.into_iter().map(header).collect();
            let url = Some(secrets.url(name, &url, notes));
            Ok(Entry {
                name: name.to_owned(),
                command: None,
                env: BTreeMap::new(),
                cwd: None,
                url,
                transport,
                headers,
                enabled,
            })
        }
        (None, None) => Err("neither `command` nor `url` is given".to_owned()),
    }
}

fn write_entry(yaml: &mut String, entry: &Entry, notes: &[String]) {
    for note in notes {
        yaml.push_str(&comment("  ", note));
    }
    // An entry holds nothing but strings, lists and maps of strings, all of which YAML can write.
    for line in serde_saphyr::to_string(&[entry]).unwrap_or_default().lines() {
        yaml.push_str("  ");
        yaml.push_str(line);
        yaml.push('\n');
    }
}

fn comment(indent: &str, text: &str) -> String {
    let flat: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("{indent}# {flat}\n")
}
