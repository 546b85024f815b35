//! [`FileRegistrar`]: writes changes of servers by clients to the configuration file, as `vmcp add` and
//! `vmcp remove` do. Comments stay; values of variables and headers go to `.env` under names of their own,
//! so that no client gets at the value of another variable.

mod entry;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Notify;
use vmcp_config::edit::{self, EditError};
use vmcp_config::{Problems, Secret};
use vmcp_engine::server_registrar::{
    MadeChange, NewServer, RegistrarError, ServerChange, ServerPlace, ServerRegistrar,
};

use super::edit_lock::EditLock;
use super::env_file::{self, Addition, OtherValue};
use super::reference_lookup::ReferenceLookup;
use super::secret_store::{replace_private, write_private};
use super::source::{ConfigInputs, read_config};

/// Edits of the file by others between a read and a write, after which the change is given up.
const MAX_ATTEMPTS: usize = 3;
/// Place where the user sets the secrets of a server from a registry.
const NEEDED_IN: &str = "`.env` beside the configuration file";

/// Writes changes of servers to a configuration file.
#[derive(Clone)]
pub struct FileRegistrar(Arc<Inner>);

struct Inner {
    path: PathBuf,
    lookup: ReferenceLookup,
    /// One change at a time in this process; [`EditLock`] keeps commands out.
    turn: Mutex<()>,
    written: Arc<Notify>,
}

impl FileRegistrar {
    /// Makes the registrar of the configuration file at `path`.
    pub fn new(path: PathBuf, lookup: ReferenceLookup) -> FileRegistrar {
        FileRegistrar(Arc::new(Inner { path, lookup, turn: Mutex::default(), written: Arc::default() }))
    }

    /// Returns the signal that the file was written, for [`ConfigWatch`](super::watch::ConfigWatch).
    pub fn written(&self) -> Arc<Notify> {
        Arc::clone(&self.0.written)
    }
}

impl ServerRegistrar for FileRegistrar {
    fn check(&self, server: &NewServer) -> Result<(), RegistrarError> {
        if let Some(reference) = server.secret_refs.values().find(|reference| reference.key.is_some()) {
            return Err(RegistrarError::Invalid(format!(
                "the secret {} has no keys here: it is one of `vmcp secret`; leave `key` out",
                reference.name
            )));
        }
        refuse_image(&server.place)
    }

    fn change(&self, change: ServerChange) -> BoxFuture<'_, Result<MadeChange, RegistrarError>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move {
            // A change that has begun is made whole, also if its client goes away.
            let made = tokio::task::spawn_blocking(move || inner.make(&change)).await;
            made.unwrap_or_else(|error| Err(RegistrarError::Unwritable(error.to_string())))
        })
    }
}

/// A changed configuration, not written yet.
struct Edited {
    text: String,
    /// Variables to be added to `.env`.
    variables: BTreeMap<String, Secret>,
    /// Variables that the user has to set, by input.
    needed: BTreeMap<String, String>,
}

impl Inner {
    fn make(&self, change: &ServerChange) -> Result<MadeChange, RegistrarError> {
        let _turn = self.turn.lock();
        let _lock = EditLock::wait(&self.path);
        for _ in 0..MAX_ATTEMPTS {
            let before = self.read()?;
            let edited = self.edited(&before, change)?;
            if edited.text == before {
                return Ok(MadeChange::default());
            }
            self.check(&before, &edited)?;
            if self.read()? != before {
                continue;
            }
            self.write(&before, &edited)?;
            self.written.notify_one();
            let needed_in = if edited.needed.is_empty() { "" } else { NEEDED_IN };
            return Ok(MadeChange { needed: edited.needed, needed_in: needed_in.to_owned() });
        }
        Err(RegistrarError::Unwritable("the configuration file is being edited; try again".to_owned()))
    }

    fn read(&self) -> Result<String, RegistrarError> {
        read_config(&self.path).map_err(|error| unwritable(&self.path, &error))
    }

    fn edited(&self, before: &str, change: &ServerChange) -> Result<Edited, RegistrarError> {
        let mut written = entry::WrittenEntry::default();
        let text = match change {
            ServerChange::Add(server) => {
                refuse_image(&server.place)?;
                let present =
                    self.lookup.values(&self.path, before, super::file_content::read_file, env_file::read);
                let referred = entry::variables_of(before);
                let is_free = |name: &str| present.variable(name).is_none() && !referred.contains(name);
                written = entry::write(server, is_free);
                edit::append(before, &written.lines, std::slice::from_ref(&server.name))
            }
            // The check refuses where a rule of a person names the server: a client takes no rule away.
            ServerChange::Remove { name } => edit::remove_entry(before, name),
            ServerChange::SetEnabled { name, enabled } => edit::set_enabled(before, name, *enabled),
        };
        let text = text.map_err(|error| match error {
            EditError::Taken(name) => RegistrarError::Taken(name),
            EditError::NoBackend(name) => RegistrarError::Unknown(name),
            error => unwritable(&self.path, &error),
        })?;
        Ok(Edited { text, variables: written.variables, needed: written.needed })
    }

    /// Refuses a text that would not be a valid configuration.
    fn check(&self, before: &str, edited: &Edited) -> Result<(), RegistrarError> {
        let mistakes = |text: &str, variables: &BTreeMap<String, Secret>| {
            let (_, loaded) = ConfigInputs::of_text(text.to_owned(), &self.path, &self.lookup, variables);
            loaded.err()
        };
        let Some(Problems { list, .. }) = mistakes(&edited.text, &edited.variables) else { return Ok(()) };
        if mistakes(before, &BTreeMap::new()).is_some() {
            let error = "it has mistakes already; `vmcp validate` shows them";
            return Err(unwritable(&self.path, &error));
        }
        let problem = list.first().map(|problem| format!("{}; {}", problem.message, problem.remedy));
        Err(RegistrarError::Invalid(problem.unwrap_or_default()))
    }

    /// Writes the secrets first, so that the entry finds them; without the entry, they go again.
    fn write(&self, before: &str, edited: &Edited) -> Result<(), RegistrarError> {
        let secrets = self.path.with_file_name(env_file::NAME);
        if edited.variables.is_empty() {
            self.replace(&edited.text)?;
            forget_unused(&secrets, before, &edited.text);
            return Ok(());
        }
        let secrets_before = match std::fs::read(&secrets) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(unwritable(&secrets, &error)),
        };
        let addition = Addition::prepare(&secrets, &edited.variables, OtherValue::Stays);
        let addition = addition.map_err(|error| unwritable(&secrets, &error))?;
        let written = addition.write().map_err(|error| unwritable(&secrets, &error));
        written.and_then(|()| self.replace(&edited.text)).inspect_err(|_| {
            restore(&secrets, secrets_before.as_deref());
        })
    }

    /// Replaces the configuration file, unless it is read-only. A link stays a link: the file behind it is
    /// replaced.
    fn replace(&self, text: &str) -> Result<(), RegistrarError> {
        let written = self.path.canonicalize().and_then(|target| replace_private(&target, text));
        written.map_err(|error| unwritable(&self.path, &error))
    }
}

/// Refuses an image with a program of its own, which only a cluster runs; here, Docker's command starts it.
fn refuse_image(place: &ServerPlace) -> Result<(), RegistrarError> {
    match place {
        ServerPlace::Image { image, .. } => Err(RegistrarError::Invalid(format!(
            "only a cluster runs the image {image} by itself; here, `docker run` starts it"
        ))),
        ServerPlace::Program { .. } | ServerPlace::Remote { .. } => Ok(()),
    }
}

/// Removes the variables from `.env` that only the entries of removed servers referred to.
fn forget_unused(secrets: &Path, before: &str, after: &str) {
    let used = entry::variables_of(after);
    let unused: Vec<_> = entry::variables_of(before).difference(&used).cloned().collect();
    if unused.is_empty() {
        return;
    }
    let kept = std::fs::read_to_string(secrets).map(|text| entry::without_lines(&text, &unused));
    let written = kept.and_then(|kept| write_private(&secrets.canonicalize()?, &kept));
    if let Err(error) = written {
        tracing::warn!(%error, ?unused, "secrets of a removed server stay in .env");
    }
}

/// Makes the error of a file that cannot be read or written; it names the file without its folder.
fn unwritable(path: &Path, error: &dyn std::fmt::Display) -> RegistrarError {
    let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    RegistrarError::Unwritable(format!("{file} cannot be changed: {error}"))
}

/// Gives a file back its content, or removes it.
fn restore(path: &Path, before: Option<&[u8]>) {
    let restored = match before {
        Some(bytes) => std::fs::write(path, bytes),
        None => std::fs::remove_file(path),
    };
    match restored {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            tracing::warn!(%error, path = %path.display(), "a change that failed could not be taken back");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
