//! Values of the references in a configuration file: the environment of the process, `.env` files, and
//! secrets stored by `vmcp secret`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use vmcp_access::outgoing::logins::Logins;
use vmcp_config::{Config, Problem};

use super::env_file::EnvFile;
use super::file_content::FileContent;
use super::secret_store::{self, StoredSecret};
use super::{env_file, keyring};

/// Sources of values besides files that references name.
#[derive(Clone)]
pub struct ReferenceLookup {
    /// Returns a variable of the process; it wins over all files.
    environment: fn(&str) -> Option<String>,
    /// Files of `--env-file`; the first that sets a variable wins.
    env_files: Vec<PathBuf>,
    /// File of stored secrets.
    secrets: Option<PathBuf>,
    /// Logins of `vmcp login`.
    logins: Option<Logins>,
}

impl ReferenceLookup {
    /// Looks variables up in the process only, and in `.env` beside the configuration file.
    pub fn new(environment: fn(&str) -> Option<String>) -> ReferenceLookup {
        ReferenceLookup { environment, env_files: Vec::new(), secrets: None, logins: None }
    }

    /// Adds files of variables, such as `--env-file` names.
    #[must_use]
    pub fn with_env_files(self, env_files: Vec<PathBuf>) -> ReferenceLookup {
        ReferenceLookup { env_files, ..self }
    }

    /// Adds the file of stored secrets.
    #[must_use]
    pub fn with_secrets(self, secrets: Option<PathBuf>) -> ReferenceLookup {
        ReferenceLookup { secrets, ..self }
    }

    /// Adds the logins in a folder.
    #[must_use]
    pub fn with_logins(self, folder: Option<PathBuf>) -> ReferenceLookup {
        ReferenceLookup { logins: folder.map(Logins::in_folder), ..self }
    }

    /// Notes in `config` who is signed in to which backend.
    pub(crate) fn sign_in(&self, config: &mut Config, read: impl Fn(&Path) -> FileContent) {
        let Some(logins) = self.logins.as_ref().filter(|_| config.uses_logins()) else { return };
        let index = read(&logins.index_path()).ok().flatten().unwrap_or_default();
        let index = Logins::parse_index(&index);
        // The tokens go to the URL that the person signed in to, and to no other of that name.
        config.sign_in(|name, url| index.get(name).filter(|login| login.url == *url).map(|login| login.at));
    }

    /// Reads the files of variables by `read_variables`, and the file of secrets by `read` if `text` refers
    /// to a secret, for the configuration at `config`.
    pub(crate) fn values(
        &self,
        config: &Path,
        text: &str,
        read: impl Fn(&Path) -> FileContent,
        read_variables: impl Fn(&Path) -> FileContent,
    ) -> Values {
        let mut values = Values {
            environment: self.environment,
            variables: BTreeMap::new(),
            secrets: Ok(BTreeMap::new()),
            unreadable: Vec::new(),
        };
        let beside = config.with_file_name(env_file::NAME);
        for (path, optional) in self.env_files.iter().map(|path| (path, false)).chain([(&beside, true)]) {
            let unreadable =
                |line, reason: &str| Unreadable { path: path.clone(), line, reason: reason.to_owned() };
            match read_variables(path) {
                Ok(Some(text)) => {
                    let EnvFile { variables, unreadable: lines } = env_file::parse(&text);
                    // Of equal names in one file the last one counts, of those in several files the first.
                    let of_file: BTreeMap<String, String> = variables.into_iter().collect();
                    for (name, value) in of_file {
                        values.variables.entry(name).or_insert(value);
                    }
                    values
                        .unreadable
                        .extend(lines.iter().map(|line| unreadable(Some(line.line), line.reason)));
                }
                Ok(None) if optional => {}
                Ok(None) => values.unreadable.push(unreadable(None, "there is no such file")),
                Err(reason) => values.unreadable.push(unreadable(None, &reason)),
            }
        }
        if let Some(path) = self.secrets.as_ref().filter(|_| text.contains("${secret:")) {
            let stored = read(path).and_then(|text| secret_store::parse(&text.unwrap_or_default()));
            values.secrets = stored.map_err(|reason| format!("{}: {reason}", path.display())).map(|stored| {
                let used =
                    stored.into_iter().filter(|(name, _)| text.contains(&format!("${{secret:{name}}}")));
                used.map(|(name, secret)| (name.clone(), value_of(&name, secret))).collect()
            });
        }
        values
    }
}

/// Returns the value of a stored secret; blocks while the keyring is asked.
fn value_of(name: &str, secret: StoredSecret) -> Result<String, String> {
    match secret {
        StoredSecret::InFile(value) => Ok(value),
        StoredSecret::InKeyring { .. } => {
            keyring::get(name).map_err(|reason| format!("the secret {name} is in the keyring: {reason}"))
        }
    }
}

/// Values as they were read.
pub(crate) struct Values {
    environment: fn(&str) -> Option<String>,
    variables: BTreeMap<String, String>,
    secrets: Result<BTreeMap<String, Result<String, String>>, String>,
    /// Files of variables, and lines of them, that could not be read.
    pub(crate) unreadable: Vec<Unreadable>,
}

/// A file of variables, or one line of it, that could not be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    path: PathBuf,
    line: Option<usize>,
    reason: String,
}

impl Unreadable {
    /// Returns the warning, which shows nothing of the file's content.
    pub(crate) fn warning(&self) -> Problem {
        let Self { path, line, reason } = self;
        match line {
            Some(line) => Problem::new(
                "",
                format!("{}:{line}: {reason}", path.display()),
                "the other lines are set; write NAME=value, a value of several lines in quotes",
            ),
            None => Problem::new(
                "",
                format!("{}: {reason}", path.display()),
                "its variables are not set; mend it, or remove it",
            ),
        }
    }
}

impl Values {
    /// Returns a variable: of the process, else of a file.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        (self.environment)(name).or_else(|| self.variables.get(name).cloned())
    }

    /// Returns a stored secret.
    pub(crate) fn secret(&self, name: &str) -> Result<Option<String>, String> {
        let secrets = self.secrets.as_ref().map_err(Clone::clone)?;
        secrets.get(name).cloned().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_wins_over_named_files_and_those_over_the_file_beside() {
        let lookup = ReferenceLookup::new(|name| (name == "A").then(|| "process".to_owned()))
            .with_env_files(vec!["/named".into(), "/none".into()]);
        let read = |path: &Path| match path.to_str() {
            Some("/named") => Ok(Some("A=named\nB=named\n".to_owned())),
            Some("/conf/.env") => {
                Ok(Some("# tokens\nB=beside\nexport C=\"a b\"\nD='p$w#'\nhunter2\nD=last\n".to_owned()))
            }
            _ => Ok(None),
        };
        let values = lookup.values(Path::new("/conf/vmcp.yaml"), "", read, read);
        for (name, expected) in [("A", "process"), ("B", "named"), ("C", "a b"), ("D", "last")] {
            assert_eq!(values.variable(name).as_deref(), Some(expected), "{name}");
        }
        assert_eq!(values.variable("E"), None);
        let warnings: Vec<_> =
            values.unreadable.iter().map(|unreadable| unreadable.warning().message).collect();
        assert_eq!(warnings, ["/none: there is no such file", "/conf/.env:5: not readable as NAME=value"]);
    }
}
