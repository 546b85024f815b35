//! [`load`]: the entries of a registry, from a file, a mirror, or the service itself.

use std::path::Path;

use url::Url;
use vmcp_registry::catalog::RegistryCatalog;
use vmcp_registry::page::Page;

use super::fetch::{self, Registry};
use super::mirror::{Mirror, MirrorState};
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes::counted;
use crate::cli::options::environment;
use crate::cli::process::block_on;

/// The registry unless another is named.
const OFFICIAL: &str = "https://registry.modelcontextprotocol.io";
/// Environment variable of the bearer token for a registry that is named.
const TOKEN: &str = "VMCP_REGISTRY_TOKEN";
/// Most bytes of a file, 64 MiB.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// The entries of one source.
#[derive(Debug)]
pub(in crate::cli) struct LoadedRegistry {
    /// Name of the source: its URL or path.
    pub(in crate::cli) name: String,
    /// The entries.
    pub(in crate::cli) catalog: RegistryCatalog,
    /// Facts that a person should know.
    pub(in crate::cli) notes: Vec<String>,
}

/// Loads the entries of a source; blocks.
pub(in crate::cli) fn load(from: Option<&str>, refresh: bool) -> Result<LoadedRegistry, CommandFailure> {
    let mut notes = Vec::new();
    let named = from.unwrap_or(OFFICIAL);
    let page = if named.starts_with("http://") || named.starts_with("https://") {
        // The token is for the registry that the person named, and for no other.
        let token = from.and_then(|_| environment(TOKEN)).filter(|token| !token.is_empty());
        of_service(named, token, refresh, &mut notes)?
    } else {
        of_path(Path::new(named))?
    };
    if let Some(first) = page.skipped.first() {
        let skipped = counted(page.skipped.len(), "faulty document");
        notes.push(format!("{skipped} left out, such as {first}"));
    }
    let catalog = RegistryCatalog::new(page.entries);
    Ok(LoadedRegistry { name: named.to_owned(), catalog, notes })
}

fn of_service(
    address: &str,
    token: Option<String>,
    refresh: bool,
    notes: &mut Vec<String>,
) -> Result<Page, CommandFailure> {
    let registry = Registry::new(address, token)?;
    let mirror = Mirror::of(registry.url());
    let before = mirror.read();
    if let Some(state) = before.as_ref().filter(|state| state.is_fresh() && !refresh) {
        return parsed(&state.text, registry.url());
    }
    let known = before.as_ref().and_then(|state| state.etag.as_deref());
    match block_on(fetch::all(&registry, known)) {
        Ok(fetched) => {
            let in_mirror = |error: &dyn std::fmt::Display| format!("{}: {error}", mirror.path().display());
            let state = MirrorState::of(before, fetched);
            let state = state.map_err(|error| CommandFailure::new(in_mirror(&error)))?;
            // A full disk, or the read-only root of a pod, costs the next reading the copy alone.
            if let Err(error) = mirror.write(&state) {
                notes.push(format!("{}; the registry is fetched again next time", in_mirror(&error)));
            }
            parsed(&state.text, registry.url())
        }
        Err(failure) => match before {
            Some(state) if !refresh => {
                let age = state.age_words();
                notes.push(format!("{}; the mirror of {age} ago is used", failure.message()));
                parsed(&state.text, registry.url())
            }
            before => Err(offline(&failure, before.as_ref())),
        },
    }
}

/// Returns the failure of a registry that cannot be asked, with the age of its mirror.
fn offline(failure: &CommandFailure, mirror: Option<&MirrorState>) -> CommandFailure {
    let (state, remedy) = match mirror {
        Some(mirror) => {
            (format!("its mirror is {} old", mirror.age_words()), "without --refresh the mirror is used")
        }
        None => (
            "there is no mirror of it yet".to_owned(),
            "check the address and the network; or name a file of entries by --from FILE",
        ),
    };
    CommandFailure::new(format!("{}; {state}", failure.message())).exit(Exit::Unreachable).remedy(remedy)
}

fn parsed(text: &str, url: &Url) -> Result<Page, CommandFailure> {
    Page::parse(text).map_err(|error| CommandFailure::new(format!("{url}: {error}")))
}

/// Reads a file, or all `.json` files of a folder, such as a mounted ConfigMap.
fn of_path(path: &Path) -> Result<Page, CommandFailure> {
    let failed = |path: &Path, reason: String| CommandFailure::new(format!("{}: {reason}", path.display()));
    let mut files = Vec::new();
    if path.is_dir() {
        let items = path.read_dir().map_err(|error| failed(path, error.to_string()))?;
        let is_json = |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "json");
        files.extend(items.filter_map(|item| Some(item.ok()?.path())).filter(is_json));
        files.sort();
    } else {
        files.push(path.to_owned());
    }
    let mut page = Page::default();
    for file in files {
        let size = file.metadata().map_err(|error| failed(&file, error.to_string()))?.len();
        if size > MAX_FILE_BYTES {
            return Err(failed(&file, format!("{size} bytes; at most {MAX_FILE_BYTES} are read")));
        }
        let text = std::fs::read_to_string(&file).map_err(|error| failed(&file, error.to_string()))?;
        let one = Page::parse(&text).map_err(|error| failed(&file, error.to_string()))?;
        page.entries.extend(one.entries);
        page.skipped.extend(one.skipped);
    }
    Ok(page)
}
