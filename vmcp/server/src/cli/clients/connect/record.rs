//! Record of connected clients: the file that was edited and the servers that left it, which may hold
//! secrets. Kept beside the store of secrets, readable by its owner only.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use vmcp_client_files::client_file::TakenServer;

use crate::cli::console::failure::CommandFailure;
use crate::config_file::secret_store::{self, write_private};

/// A client that uses vmcp.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ConnectedClient {
    /// File that was edited.
    pub(super) file: PathBuf,
    /// Servers that left it.
    pub(super) taken: Vec<TakenServer>,
}

type Clients = BTreeMap<String, ConnectedClient>;

/// Returns the record of a client.
pub(super) fn read_one(client: &str) -> Result<Option<ConnectedClient>, CommandFailure> {
    Ok(read()?.remove(client))
}

/// Adds to the record of a client: servers taken out earlier stay known.
pub(super) fn add(client: &str, connected: ConnectedClient) -> Result<(), CommandFailure> {
    let mut clients = read()?;
    let ConnectedClient { file, taken } = connected;
    match clients.get_mut(client).filter(|known| known.file == file) {
        Some(known) => known.taken.extend(taken),
        None => drop(clients.insert(client.to_owned(), ConnectedClient { file, taken })),
    }
    write(&clients)
}

/// Forgets a client.
pub(super) fn remove(client: &str) -> Result<(), CommandFailure> {
    let mut clients = read()?;
    clients.remove(client);
    write(&clients)
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
