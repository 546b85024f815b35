//! Import of other clients' files, in JSON, TOML and YAML: those of [`known_clients`](crate::known_clients).
//! Secrets leave the file for environment variables.

mod dialects;
mod entry;
mod format;
mod jsonc;
mod secrets;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

pub use self::dialects::PLACES as SERVER_PLACES;
use self::dialects::{FoundServer, Reading, switches};
use self::entry::ToolRules;
use self::secrets::Secrets;
use vmcp_config::{BackendEntry, Problem, RESERVED_NAMES, Secret, is_backend_name, normalize_name};

/// Most bytes of a client's file, 64 MiB: Claude Code keeps the history of all projects beside its servers.
pub const MAX_FILE_BYTES: usize = 64 << 20;

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
    /// Names of the backends, after normalization, in the order of the entries.
    pub backends: Vec<String>,
    /// Names of backends that exist already and that an entry takes the place of.
    pub replaced: Vec<String>,
    /// Names of servers that were left out, because a backend has the name already.
    pub skipped: Vec<String>,
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
    /// The file is larger than [`MAX_FILE_BYTES`].
    #[error("the file is larger than {MAX_FILE_BYTES} bytes")]
    TooLarge,
    /// The file is neither JSON, even with comments allowed, nor TOML or YAML.
    #[error("{0}")]
    Unreadable(String),
    /// The file has none of the known shapes.
    #[error(
        "found no servers; expected `mcpServers` (Claude, Cursor), `amp.mcpServers` (Amp), `servers` (VS Code), \
         `mcp_servers` (Codex), `context_servers` (Zed), `mcp` (opencode) or `extensions` (Goose)"
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
    let file = ClientText { name: source_name, text, folder: None, client: None };
    import_files(&[file], &Surroundings::default())
}

/// A file of another client.
#[derive(Debug, Clone, Copy)]
pub struct ClientText<'a> {
    /// Name for people: the path as it was given.
    pub name: &'a str,
    /// Content.
    pub text: &'a str,
    /// Absolute folder of the file; `None` if it is unknown.
    pub folder: Option<&'a Path>,
    /// Known client whose own file it is; `None` for a file that a person named, whose path and keys tell.
    pub client: Option<&'a str>,
}

/// Treatment of a server whose name a backend has already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NameConflict {
    /// The server is left out.
    #[default]
    Skip,
    /// The server gets a name with a number.
    Rename,
    /// The server takes the place of the backend.
    Replace,
}

/// Returns true if a variable, given by name, exists with another value than the given one.
pub type IsTaken<'a> = &'a dyn Fn(&str, &str) -> bool;

/// Circumstances of an import.
#[derive(Clone, Copy, Default)]
pub struct Surroundings<'a> {
    /// Home folder, for `~/` in a path.
    pub home: Option<&'a Path>,
    /// Names of backends that exist already.
    pub backends: &'a [String],
    /// Treatment of servers with these names.
    pub conflict: NameConflict,
    /// Variables outside of the import; `None`: all names are free.
    pub is_taken: Option<IsTaken<'a>>,
    /// True to leave servers out, each with a note, whose entry would be a mistake in `vmcp.yaml`: the whole
    /// file would be refused for one of them.
    pub leaves_mistakes_out: bool,
}

/// Converts the files of one client, such as those of its scopes. A server that two files have alike is taken
/// once.
pub fn import_files(
    files: &[ClientText<'_>],
    surroundings: &Surroundings<'_>,
) -> Result<Imported, ImportError> {
    let mut parsed = Vec::new();
    for ClientText { name, text, .. } in files {
        if text.len() > MAX_FILE_BYTES {
            return Err(ImportError::TooLarge);
        }
        let unreadable = |reason| ImportError::Unreadable(format!("{name}: {reason}"));
        parsed.push(format::parse(text).map_err(unreadable)?);
    }
    let servers = servers_of(&parsed, files, surroundings.home);
    if servers.is_empty() {
        return Err(ImportError::NoServers);
    }
    let source_name = files.iter().map(|file| file.name).collect::<Vec<_>>().join(", ");
    // A server that has a legal name keeps it, whatever becomes of the others.
    let legal = servers.iter().map(|(found, _)| found.name).filter(|name| is_backend_name(name));
    let reserved: BTreeSet<String> = legal.map(str::to_owned).collect();
    let is_present = |name: &String| surroundings.backends.contains(name);
    // A name made here leaves backends alone; `Replace` takes the place of a backend of the server's own
    // name.
    let mut names: BTreeSet<String> = match surroundings.conflict {
        NameConflict::Skip | NameConflict::Rename => surroundings.backends.iter().cloned().collect(),
        NameConflict::Replace => BTreeSet::new(),
    };
    let mut secrets = Secrets { is_taken: surroundings.is_taken, ..Secrets::default() };
    for (found, reading) in &servers {
        // A server that cannot be read is named below.
        let server = dialects::read(found.server, *reading, &mut Vec::new()).unwrap_or_default();
        for text in server.texts() {
            secrets.note_references(text);
        }
    }
    let (mut added, mut skipped) = (Vec::new(), Vec::new());
    let mut all_notes = Vec::new();
    let mut backends = String::new();
    let mut rules = Vec::new();
    for (found, reading) in servers {
        let FoundServer { name: original, server, project } = found;
        let plain = plain_name(original);
        if surroundings.conflict == NameConflict::Skip && is_present(&plain) {
            skipped.push(plain);
            continue;
        }
        let mut notes = Vec::new();
        let name = match original {
            legal if reserved.contains(legal) && !names.contains(legal) => legal.to_owned(),
            other => unused_name(other, &names, &reserved, surroundings.backends),
        };
        let before = (secrets.variables.clone(), secrets.asked.clone());
        let entry = dialects::read(server, reading, &mut notes).and_then(|mut server| {
            if !server.disabled && switches::is_off(&parsed, &found, reading.folder) {
                server.disabled = true;
                notes.push("a list of the client switches it off".to_owned());
            }
            secrets.may_refer_to_files = reading.is_opencode;
            let converted = entry::convert(&name, server, &mut secrets, &mut notes)?;
            let mistake = surroundings.leaves_mistakes_out.then(|| mistake_of(&converted.0)).flatten();
            mistake.map_or(Ok(converted), Err)
        });
        match entry {
            Ok((entry, tools)) => {
                notes.extend(project.map(|folder| format!("of the project {folder}")));
                if name != original {
                    notes.insert(0, format!("renamed from {original:?}"));
                }
                names.insert(name.clone());
                added.push(name.clone());
                write_item(&mut backends, &entry, &notes);
                rules.extend(tools);
                all_notes.extend(notes.into_iter().map(|note| format!("{name}: {note}")));
            }
            Err(reason) => {
                (secrets.variables, secrets.asked) = before;
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
        if added.is_empty() { format!("backends: []\n{backends}") } else { format!("backends:\n{backends}") };
    let replaces = surroundings.conflict == NameConflict::Replace;
    let unindented = |line: &str| format!("{}\n", line.strip_prefix("  ").unwrap_or(line));
    Ok(Imported {
        entries: backends.lines().map(unindented).collect(),
        restricts_tools: !rules.is_empty(),
        yaml: title + &list + &aggregation(&rules),
        replaced: added.iter().filter(|name| replaces && is_present(name)).cloned().collect(),
        backends: added,
        skipped,
        notes: all_notes,
        variables: secrets.variables,
        asked: secrets.asked,
    })
}

/// Returns the servers of parsed files, each once, with the way to read it.
fn servers_of<'a>(
    parsed: &'a [Value],
    files: &[ClientText<'a>],
    home: Option<&'a Path>,
) -> Vec<(FoundServer<'a>, Reading<'a>)> {
    let mut servers: Vec<(FoundServer<'a>, Reading<'a>)> = Vec::new();
    for (file, source) in parsed.iter().zip(files) {
        let reading = Reading {
            is_gemini: source.client == Some("gemini") || dialects::is_gemini(source.name, file),
            is_opencode: source.client == Some("opencode") || dialects::is_opencode(source.name),
            counts_seconds: matches!(source.client, Some("cline" | "roo" | "goose"))
                || dialects::counts_seconds(source.name),
            home,
            folder: source.folder,
        };
        for found in dialects::servers(file) {
            let is_known =
                |(known, _): &(FoundServer<'_>, _)| known.name == found.name && known.server == found.server;
            if !servers.iter().any(is_known) {
                servers.push((found, reading));
            }
        }
    }
    servers
}

/// Returns the section with the tools that the other client uses, if it restricts any.
fn aggregation(rules: &[ToolRules]) -> String {
    let mut yaml = String::new();
    for rule in rules {
        write_item(&mut yaml, rule, &[]);
    }
    if yaml.is_empty() { yaml } else { format!("aggregation:\n  tools:\n{yaml}") }
}

/// Returns the legal name of a server to which no number is added.
fn plain_name(original: &str) -> String {
    let name = normalize_name(original).unwrap_or_else(|| "server".to_owned());
    if RESERVED_NAMES.contains(&name.as_str()) { format!("{name}-server") } else { name }
}

/// Returns a legal name that is not taken yet, with a number if need be. A numbered name is never the name of
/// a backend that exists, which is another server.
fn unused_name(
    original: &str,
    taken: &BTreeSet<String>,
    reserved: &BTreeSet<String>,
    backends: &[String],
) -> String {
    let name = plain_name(original);
    // Cut at 58 characters, so that a number of up to four digits fits into the 63 of a name.
    let numbered = (2..).map(|n| normalize_name(&format!("{name:.58}-{n}")).unwrap_or_default());
    std::iter::once(name.clone())
        .chain(numbered.filter(|name| !backends.contains(name)))
        .find(|name| !taken.contains(name) && !reserved.contains(name))
        .unwrap_or(name)
}

/// Returns the first mistake in an entry: its setting, and the reason. Unknown variables count as right.
fn mistake_of(entry: &BackendEntry) -> Option<String> {
    let mut yaml = "backends:\n".to_owned();
    write_item(&mut yaml, entry, &[]);
    let problems = vmcp_config::load(&yaml, "the entry", &|_: &str| None).err()?.list;
    let Problem { path, message, .. } = problems.first()?;
    let setting = path.strip_prefix("backends[0]").unwrap_or(path).trim_start_matches('.');
    Some(if setting.is_empty() { message.clone() } else { format!("{setting}: {message}") })
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
