//! Import of other clients' files: Claude, Cursor, Windsurf, VS Code, Gemini, Codex, Zed, opencode, Goose.
//! Secrets leave the file for environment variables.

mod dialects;
mod entry;
mod format;
mod jsonc;
mod secrets;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use self::dialects::FoundServer;
use self::entry::ToolRules;
use self::secrets::Secrets;
use vmcp_config::{MAX_BYTES, RESERVED_NAMES, Secret, is_backend_name, normalize_name};

/// Result of [`import`].
#[derive(Debug)]
pub struct Imported {
    /// Text of `vmcp.yaml`, commented.
    pub yaml: String,
    /// Lines of the list of backends alone, without indentation, for
    /// [`edit::append`](vmcp_config::edit::append).
    pub entries: String,
    /// True if the text restricts tools by `aggregation`, which the entries alone do not.
    pub restricts_tools: bool,
    /// Names of the backends, after normalization.
    pub backends: Vec<String>,
    /// Changes that a person should know of: settings renamed, left out or moved. They are comments in the
    /// YAML too.
    pub notes: Vec<String>,
    /// Secrets that were moved out of the file, by the environment variable that the YAML refers to.
    pub variables: BTreeMap<String, Secret>,
    /// Environment variables for values that the other client asks its user for.
    pub asked: BTreeSet<String>,
}

/// Reason why a file cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file is larger than a configuration may be.
    #[error("the file is larger than {MAX_BYTES} bytes")]
    TooLarge,
    /// The file is neither JSON, even with comments allowed, nor TOML or YAML.
    #[error("{0}")]
    Unreadable(String),
    /// The file has none of the known shapes.
    #[error(
        "found no servers; expected `mcpServers` (Claude, Cursor), `servers` (VS Code), `mcp_servers` (Codex), \
         `context_servers` (Zed), `mcp` (opencode) or `extensions` (Goose)"
    )]
    NoServers,
}

/// Converts another client's file; the first comment names `source_name`.
///
/// A server that cannot be converted is left out with a note.
///
/// # Examples
///
/// ```
/// use vmcp_client_files::import::import;
///
/// let file = r#"{ "mcpServers": { "Time": { "command": "uvx", "args": ["mcp-server-time"] } } }"#;
/// let imported = import(file, "claude.json")?;
/// assert_eq!(imported.backends, ["time"]);
/// assert!(imported.yaml.contains("command: [uvx, mcp-server-time]"));
/// # Ok::<(), vmcp_client_files::import::ImportError>(())
/// ```
pub fn import(text: &str, source_name: &str) -> Result<Imported, ImportError> {
    import_files(&[(source_name, text)])
}

/// Converts the files of one client, such as those of its scopes, each given with its name. A server that two
/// files have alike is taken once.
pub fn import_files(files: &[(&str, &str)]) -> Result<Imported, ImportError> {
    let mut parsed = Vec::new();
    for (name, text) in files {
        if text.len() > MAX_BYTES {
            return Err(ImportError::TooLarge);
        }
        let unreadable = |reason| ImportError::Unreadable(format!("{name}: {reason}"));
        parsed.push(format::parse(text).map_err(unreadable)?);
    }
    let mut servers: Vec<FoundServer<'_>> = Vec::new();
    for found in parsed.iter().flat_map(dialects::servers) {
        if !servers.iter().any(|known| known.name == found.name && known.server == found.server) {
            servers.push(found);
        }
    }
    if servers.is_empty() {
        return Err(ImportError::NoServers);
    }
    let source_name = files.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    // A server that has a legal name keeps it, whatever becomes of the others.
    let legal = servers.iter().map(|found| found.name).filter(|name| is_backend_name(name));
    let reserved: BTreeSet<String> = legal.map(str::to_owned).collect();
    let mut secrets = Secrets::default();
    let mut names = BTreeSet::new();
    let mut all_notes = Vec::new();
    let mut backends = String::new();
    let mut rules = Vec::new();
    for FoundServer { name: original, server, project } in servers {
        let mut notes = Vec::new();
        let name = match original {
            legal if reserved.contains(legal) && !names.contains(legal) => legal.to_owned(),
            other => unused_name(other, &names, &reserved),
        };
        let entry =
            dialects::read(server).and_then(|server| entry::convert(&name, server, &mut secrets, &mut notes));
        match entry {
            Ok((entry, tools)) => {
                notes.extend(project.map(|folder| format!("of the project {folder}")));
                if name != original {
                    notes.insert(0, format!("renamed from {original:?}"));
                }
                names.insert(name.clone());
                write_item(&mut backends, &entry, &notes);
                rules.extend(tools);
                all_notes.extend(notes.into_iter().map(|note| format!("{name}: {note}")));
            }
            Err(reason) => {
                all_notes.extend(notes.into_iter().map(|note| format!("{name}: {note}")));
                let note = format!("{original:?} left out: {reason}");
                backends.push_str(&comment("  ", &note));
                all_notes.push(note);
            }
        }
    }
    let title = comment(
        "",
        &format!("Imported from {source_name}. `vmcp validate` checks it; `vmcp init` shows every setting."),
    );
    let list =
        if names.is_empty() { format!("backends: []\n{backends}") } else { format!("backends:\n{backends}") };
    let unindented = |line: &str| format!("{}\n", line.strip_prefix("  ").unwrap_or(line));
    Ok(Imported {
        entries: backends.lines().map(unindented).collect(),
        restricts_tools: !rules.is_empty(),
        yaml: title + &list + &aggregation(&rules),
        backends: names.into_iter().collect(),
        notes: all_notes,
        variables: secrets.variables,
        asked: secrets.asked,
    })
}

/// Returns the section with the tools that the other client uses, if it restricts any.
fn aggregation(rules: &[ToolRules]) -> String {
    let mut yaml = String::new();
    for rule in rules {
        write_item(&mut yaml, rule, &[]);
    }
    if yaml.is_empty() { yaml } else { format!("aggregation:\n  tools:\n{yaml}") }
}

/// Returns a legal name that is not taken yet, with a number if need be.
fn unused_name(original: &str, taken: &BTreeSet<String>, reserved: &BTreeSet<String>) -> String {
    let name = normalize_name(original).unwrap_or_else(|| "server".to_owned());
    let name = if RESERVED_NAMES.contains(&name.as_str()) { format!("{name}-server") } else { name };
    // Cut at 58 characters, so that a number of up to four digits fits into the 63 of a name.
    let numbered = (2..).map(|n| normalize_name(&format!("{name:.58}-{n}")).unwrap_or_default());
    std::iter::once(name.clone())
        .chain(numbered)
        .find(|name| !taken.contains(name) && !reserved.contains(name))
        .unwrap_or(name)
}

fn write_item(yaml: &mut String, item: &impl Serialize, notes: &[String]) {
    for note in notes {
        yaml.push_str(&comment("  ", note));
    }
    // An item holds nothing but strings, lists and maps of strings, all of which YAML can write.
    for line in serde_saphyr::to_string(&[item]).unwrap_or_default().lines() {
        yaml.push_str("  ");
        yaml.push_str(line);
        yaml.push('\n');
    }
}

fn comment(indent: &str, text: &str) -> String {
    let flat: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("{indent}# {flat}\n")
}
