//! Record of connected clients: the file that was edited, its former text and the servers that left it, which
//! may hold secrets. Kept beside the store of secrets, readable by its owner only.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use vmcp_client_files::client_file::TakenServer;
use vmcp_config::status::digest;

use crate::cli::console::failure::CommandFailure;
use crate::config_file::edit_lock::EditLock;
use crate::config_file::secret_store::{self, write_private};

/// A client that uses vmcp.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ConnectedClient {
    /// File that was edited.
    pub(super) file: PathBuf,
    /// Servers that left it.
    pub(super) taken: Vec<TakenServer>,
    /// The file before the first edit; `None` if it is large, or if others have edited it between two edits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) former: Option<FormerFile>,
}

/// A file before vmcp edited it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct FormerFile {
    /// Its text; `None` if it was absent.
    pub(super) text: Option<String>,
    /// Digest of the text that vmcp wrote.
    pub(super) written: String,
}

/// Longest text that the record keeps, 256 KiB: Claude Code has its whole history in the file.
const MAX_FORMER_BYTES: usize = 256 << 10;

impl FormerFile {
    /// Returns the file with `text`, in whose place vmcp writes `written`; `None` for a larger one.
    pub(super) fn new(text: Option<String>, written: &str) -> Option<FormerFile> {
        let length = text.as_ref().map_or(0, String::len);
        (length <= MAX_FORMER_BYTES).then(|| FormerFile { text, written: digest(written) })
    }

    /// True if the file has the text that vmcp wrote.
    pub(super) fn is_untouched(&self, text: &str) -> bool {
        digest(text) == self.written
    }

    /// Returns the file before both edits; `None` if another program edited it in between.
    fn before(self, later: FormerFile) -> Option<FormerFile> {
        let is_continued = later.text.is_some_and(|text| self.is_untouched(&text));
        is_continued.then_some(FormerFile { text: self.text, written: later.written })
    }
}

/// Connections by client. Further files of a client, such as those of another `CODEX_HOME`, have the file in
/// their key.
type Clients = BTreeMap<String, ConnectedClient>;

/// Returns the connections of a client, one for each file.
pub(super) fn of_client(client: &str) -> Result<Vec<ConnectedClient>, CommandFailure> {
    let clients = read()?.into_iter().filter(|(key, _)| is_of(client, key));
    Ok(clients.map(|(_, connected)| connected).collect())
}

/// Adds to the record of a client's file: servers taken out earlier stay known.
pub(super) fn add(client: &str, connected: ConnectedClient) -> Result<(), CommandFailure> {
    let _lock = EditLock::wait(&path()?);
    let mut clients = read()?;
    add_to(&mut clients, client, connected);
    write(&clients)
}

fn add_to(clients: &mut Clients, client: &str, connected: ConnectedClient) {
    let ConnectedClient { file, taken, former } = connected;
    let mut of_client = clients.iter_mut().filter(|(key, _)| is_of(client, key));
    if let Some((_, known)) = of_client.find(|(_, known)| known.file == file) {
        known.taken.extend(taken);
        known.former = known.former.take().zip(former).and_then(|(first, later)| first.before(later));
        return;
    }
    let key =
        if clients.contains_key(client) { format!("{client} {}", file.display()) } else { client.to_owned() };
    clients.insert(key, ConnectedClient { file, taken, former });
}

/// Forgets a client's file.
pub(super) fn remove(client: &str, file: &Path) -> Result<(), CommandFailure> {
    let _lock = EditLock::wait(&path()?);
    let mut clients = read()?;
    clients.retain(|key, known| !(is_of(client, key) && known.file == file));
    write(&clients)
}

/// True for a key of the client, whose name has no blank.
fn is_of(client: &str, key: &str) -> bool {
    key.split(' ').next() == Some(client)
}

fn path() -> Result<PathBuf, CommandFailure> {
    let store = secret_store::path().ok_or_else(|| CommandFailure::new("there is no home folder"))?;
    Ok(store.with_file_name("connections.json"))
}

fn read() -> Result<Clients, CommandFailure> {
    let path = path()?;
    match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Clients::new()),
        // The parser's own words would quote what it found.
        read => serde_json::from_str(&read?)
            .map_err(|_| CommandFailure::new(format!("{} is damaged", path.display()))),
    }
}

fn write(clients: &Clients) -> Result<(), CommandFailure> {
    let path = path()?;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    Ok(write_private(&path, &serde_json::to_string_pretty(clients)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_file_of_a_client_leaves_the_servers_of_the_first_known() {
        let taken = |name: &str| TakenServer {
            place: vec!["mcp_servers".to_owned()],
            name: name.to_owned(),
            entry: serde_json::json!({ "command": name }),
        };
        let connected = |file: &str, name: &str| ConnectedClient {
            file: file.into(),
            taken: vec![taken(name)],
            former: None,
        };
        let mut clients = Clients::new();
        for (client, file, name) in [
            ("vscode", "/a/mcp.json", "one"),
            ("vscode", "/b/mcp.json", "two"),
            ("vscode-insiders", "/b/mcp.json", "three"),
            ("vscode", "/a/mcp.json", "four"),
        ] {
            add_to(&mut clients, client, connected(file, name));
        }
        let names: Vec<_> = clients
            .iter()
            .filter(|(key, _)| is_of("vscode", key))
            .map(|(_, known)| known.taken.iter().map(|server| &*server.name).collect::<Vec<_>>())
            .collect();
        assert_eq!(names, [vec!["one", "four"], vec!["two"]]);
        assert_eq!(clients.len(), 3);
    }

    #[test]
    fn the_first_text_stays_known_until_others_edit_the_file() {
        let edit = |text: Option<&str>, written: &str| ConnectedClient {
            file: "/a/mcp.json".into(),
            taken: Vec::new(),
            former: FormerFile::new(text.map(str::to_owned), written),
        };
        let former = |edits: &[(Option<&str>, &str)]| {
            let mut clients = Clients::new();
            for (text, written) in edits {
                add_to(&mut clients, "cursor", edit(*text, written));
            }
            clients.remove("cursor").unwrap().former
        };
        let known = former(&[(Some("{}"), "one"), (Some("one"), "two"), (Some("two"), "two")]).unwrap();
        assert_eq!(known.text.as_deref(), Some("{}"));
        assert!(known.is_untouched("two") && !known.is_untouched("one"));
        assert_eq!(former(&[(None, "one"), (Some("one"), "two")]).unwrap().text, None, "there was no file");
        assert_eq!(former(&[(Some("{}"), "one"), (Some("edited"), "two")]), None);
        let long = " ".repeat(MAX_FORMER_BYTES + 1);
        assert_eq!(former(&[(Some(long.as_str()), "one")]), None);
    }
}
