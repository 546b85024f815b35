//! `vmcp secret`: stores values for `${secret:NAME}` outside of the configuration file.

use std::io::{self, IsTerminal as _, Read as _};
use std::path::Path;
use std::time::SystemTime;

use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;
use console::Term;

use crate::cli::completions::candidates;
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes;
use crate::cli::console::output::{self, OutputFormat};
use crate::config_file::edit_lock::EditLock;
use crate::config_file::keyring;
use crate::config_file::secret_store::{self, StoredSecret, StoredSecrets};

/// Most bytes of a secret, 64 KiB, as of a file that a configuration refers to.
const MAX_SECRET_BYTES: u64 = vmcp_config::MAX_FILE_BYTES as u64;

/// Store secrets for `${secret:NAME}` in the configuration file
///
/// They are in the Keychain of macOS, or in the keyring of your desktop (Secret Service) if there is one and
/// `secret-tool` is installed, else in ~/.config/vmcp/secrets.json, which only you can read. A running server
/// takes changes at once.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vmcp secret set GITHUB_TOKEN               # asks for the value; or reads it from a pipe
  gh auth token | vmcp secret set GITHUB_TOKEN
  vmcp secret list")]
pub(in crate::cli) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Store a secret; the value is asked for, or read from standard input
    Set {
        /// Name: letters, digits and `_`
        name: String,
        /// Store it in the file, even if there is a keyring
        #[arg(long)]
        file: bool,
    },
    /// List the names of all secrets
    List {
        /// Format of the result
        #[arg(short, long, value_name = "FORMAT", default_value = "table")]
        output: OutputFormat,
    },
    /// Remove a secret
    Rm {
        /// Name of the secret
        #[arg(add = ArgValueCandidates::new(candidates::secrets))]
        name: String,
    },
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: Arguments) -> Result<Exit, CommandFailure> {
    let path = secret_store::path().ok_or_else(|| {
        CommandFailure::new("there is no home directory to store secrets in").remedy("set HOME")
    })?;
    // A damaged store is told before the question for a value.
    let secrets = stored(&path)?;
    match arguments.action {
        Action::List { output: format } => {
            let names: Vec<_> = secrets.keys().map(String::as_str).collect();
            output::print(format, &names, || names.join("\n"))?;
            Ok(if secrets.is_empty() { Exit::NothingFound } else { Exit::Done })
        }
        Action::Set { name, file } => {
            let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if !plain || name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
                return Err(CommandFailure::new(format!("`{name}` is not the name of a secret"))
                    .exit(Exit::Usage)
                    .remedy("use letters, digits and `_`, such as GITHUB_TOKEN"));
            }
            let value = value(&name)?;
            let kept = if file { Err("as you asked".to_owned()) } else { keyring::set(&name, &value) };
            let place = match &kept {
                Ok(()) => "the keyring".to_owned(),
                Err(reason) => format!("{}, which only you can read ({reason})", path.display()),
            };
            let _lock = locked(&path);
            let mut secrets = stored(&path)?;
            let before = secrets
                .insert(name.clone(), if kept.is_ok() { in_keyring() } else { StoredSecret::InFile(value) });
            write(&path, &secrets)?;
            if kept.is_err() && matches!(before, Some(StoredSecret::InKeyring { .. })) {
                // The former value has no use any more; without a keyring it cannot be removed.
                let _ = keyring::remove(&name);
            }
            notes::note(&format!("stored in {place}; refer to it by ${{secret:{name}}}"));
            Ok(Exit::Done)
        }
        Action::Rm { name } => {
            let _lock = locked(&path);
            let mut secrets = stored(&path)?;
            let Some(removed) = secrets.remove(&name) else {
                return Err(CommandFailure::new(format!("there is no secret `{name}`"))
                    .exit(Exit::NothingFound)
                    .remedy("`vmcp secret list` shows the names"));
            };
            write(&path, &secrets)?;
            if matches!(removed, StoredSecret::InKeyring { .. }) {
                keyring::remove(&name).map_err(CommandFailure::new)?;
            }
            Ok(Exit::Done)
        }
    }
}

/// Waits for other edits of the store, whose folder is made if it is absent.
fn locked(path: &Path) -> Option<EditLock> {
    // Without the folder, the write below fails and says why.
    let _made = path.parent().map(secret_store::private_folder);
    EditLock::wait(path)
}

fn stored(path: &Path) -> Result<StoredSecrets, CommandFailure> {
    secret_store::read(path).map_err(|reason| CommandFailure::new(format!("{}: {reason}", path.display())))
}

/// Reads the value without showing it; line breaks at its end are not part of it.
fn value(name: &str) -> Result<String, CommandFailure> {
    let failed = |error: io::Error| CommandFailure::of_pipe("cannot read the secret", &error);
    let mut value = if io::stdin().is_terminal() {
        let terminal = Term::stderr();
        terminal.write_str(&format!("{name}: ")).map_err(failed)?;
        terminal.read_secure_line().map_err(failed)?
    } else {
        let mut text = String::new();
        io::stdin().lock().take(MAX_SECRET_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
        text
    };
    value.truncate(value.trim_end_matches(['\r', '\n']).len());
    match value.len() as u64 {
        0 => Err(CommandFailure::new("the secret is empty").exit(Exit::Usage)),
        length if length > MAX_SECRET_BYTES => {
            Err(CommandFailure::new("the secret is larger than 64 KiB").exit(Exit::Usage))
        }
        _ => Ok(value),
    }
}

/// Returns the entry of a secret that was put into the keyring now.
fn in_keyring() -> StoredSecret {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    StoredSecret::InKeyring { keyring: u64::try_from(now.as_millis()).unwrap_or_default() }
}

fn write(path: &Path, secrets: &StoredSecrets) -> Result<(), CommandFailure> {
    secret_store::write(path, secrets)
        .map_err(|error| CommandFailure::new(format!("{}: {error}", path.display())))
}
