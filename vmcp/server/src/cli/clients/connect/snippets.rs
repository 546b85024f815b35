//! Entries of vmcp in the files of all known clients, for the web console.

use std::path::Path;

use vmcp_client_files::client_file;
use vmcp_client_files::known_clients::{CLIENTS, is_folder};
use vmcp_console::pages::connect::ClientSnippet;

use super::NAME;
use super::client_entry::{ClientShape, Endpoint, StartedProgram};

/// Returns one entry for each known client: the URL `url` of the running server where the client takes one,
/// else the command of `program` that reaches the server of `config`. `needs_key`: clients send a key with
/// the URL.
pub(in crate::cli) fn snippets(
    program: &Path,
    config: &Path,
    url: Option<&str>,
    needs_key: bool,
) -> Vec<ClientSnippet> {
    let command = Endpoint::Command(StartedProgram {
        program: program.to_owned(),
        config: config.to_owned(),
        profile: None,
        own_server: false,
        variables: Vec::new(),
    });
    let known = CLIENTS.iter().filter_map(|(client, files)| {
        let shape = ClientShape::for_client(client)?;
        let by_url = url.and_then(|url| shape.entry(&Endpoint::Url { url: url.to_owned(), needs_key }).ok());
        let is_command = by_url.is_none();
        let entry = by_url.or_else(|| shape.entry(&command).ok())?;
        let file = client_file::connect("", shape.format, shape.place, NAME, &entry, &|_| false).ok()?;
        Some(ClientSnippet {
            client: (*client).to_owned(),
            files: files.iter().filter(|file| !is_folder(file)).map(|file| (*file).to_owned()).collect(),
            text: file.text,
            is_command,
        })
    });
    known.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_client_has_an_entry_and_a_file() {
        let (program, config) = (Path::new("/opt/bin/vmcp"), Path::new("/me/vmcp.yaml"));
        let shown = snippets(program, config, Some("http://127.0.0.1:8080/mcp"), false);
        assert_eq!(shown.len(), CLIENTS.len());
        for ClientSnippet { client, files, text, is_command } in shown {
            assert!(!files.is_empty(), "{client}");
            assert_eq!(is_command, client == "claude-desktop", "{client}");
            let expected = if is_command { "/me/vmcp.yaml" } else { "http://127.0.0.1:8080/mcp" };
            assert!(text.contains(expected) && text.contains("vmcp"), "{client}: {text}");
        }
    }
}
