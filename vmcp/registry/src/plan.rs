//! [`Draft`]: an entry and a person's values become a backend of `vmcp.yaml`.
//!
//! The entry is hostile until shown otherwise:
//!
//! - A package name that is a flag, a path or an address: [`identifiers`](crate::identifiers) has the grammar
//!   of each type of registry.
//! - A package name that leads elsewhere: only the usual registry is used, and variables that steer npm, uv,
//!   pip, docker or the loader are refused.
//! - A command of its own, or flags that open the machine: the program follows from the type, and its flags
//!   are an allow-list ([`runner`]).
//! - A shell: a command is a list of words, and no shell is started.
//! - `${secret:…}` in a value, to send a secret elsewhere: a `$` of an entry is written `$$`.
//! - A version that changes afterwards: exact versions, tags and digests alone are taken.
//! - An address in the cloud's metadata service, or secrets in clear text: refused by [`remote`].

mod fill;
mod package;
mod remote;
mod runner;
mod text;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};

use crate::entry::{Package, Remote, ServerEntry};
use fill::Filler;
pub use fill::Question;
pub use text::{Part, Text};

/// Kind of a way to reach a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstallMethod {
    /// At a URL.
    Remote,
    /// A program from npm, by `npx`.
    Npm,
    /// A program from PyPI, by `uvx`.
    Pypi,
    /// An image, by `docker run`.
    Oci,
}

impl InstallMethod {
    /// Returns the name of the way, as the registry spells it.
    pub fn name(self) -> &'static str {
        match self {
            InstallMethod::Remote => "remote",
            InstallMethod::Npm => "npm",
            InstallMethod::Pypi => "pypi",
            InstallMethod::Oci => "oci",
        }
    }
}

/// Reason why an entry cannot be added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The entry has no way of the wanted kind.
    #[error("{name} has {}", .wanted.map_or("neither a remote nor a package".to_owned(), |way| format!("no way of type {}", way.name())))]
    NoWay {
        /// Name of the server.
        name: String,
        /// The wanted kind.
        wanted: Option<InstallMethod>,
    },
    /// A field of the entry is refused.
    #[error("{path}: {reason}")]
    Refused {
        /// Place in the entry.
        path: String,
        /// The reason.
        reason: String,
    },
    /// Every way is refused.
    #[error("{}", .0.join("\n"))]
    AllRefused(Vec<String>),
    /// A value does not fit its input.
    #[error("{label}: {reason}")]
    Value {
        /// Name of the input.
        label: String,
        /// The reason.
        reason: String,
    },
    /// A value belongs to no input.
    #[error("`{label}` is no input of this server; its inputs: {}", listed(.known))]
    UnknownInput {
        /// The name that was given.
        label: String,
        /// Names of the inputs.
        known: Vec<String>,
    },
}

/// The program or the address of a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A program.
    Program {
        /// Program and arguments, word by word.
        command: Vec<Text>,
        /// Variables of its environment.
        env: BTreeMap<String, Text>,
    },
    /// An address.
    Remote {
        /// Its URL.
        url: Text,
        /// True for the older transport of events.
        is_sse: bool,
        /// Headers of each request.
        headers: BTreeMap<String, Text>,
    },
}

/// A backend that is to be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// Kind of the way.
    pub way: InstallMethod,
    /// The package with its version or digest, or the address.
    pub origin: String,
    /// The program or the address; incomplete while values are missing.
    pub target: Target,
    /// Inputs, in the order of the entry.
    pub questions: Vec<Question>,
    /// Names of required inputs that have no value.
    pub missing: Vec<String>,
    /// Facts that a person should know.
    pub notes: Vec<String>,
    /// Place of the image among the words of the command, with [`InstallMethod::Oci`]: options of Docker are
    /// before it, arguments of the image's own program behind it.
    pub image_at: Option<usize>,
}

enum Candidate<'a> {
    Remote(&'a Remote),
    Package(&'a Package, InstallMethod),
    /// A package of a type that cannot be started here.
    Other(&'a Package),
}

impl Draft {
    /// Makes a backend of an entry. Without a wanted way, the first usable one is taken: an address with the
    /// current transport, which runs nothing on this machine, then packages in their order, then addresses
    /// with the older transport.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use vmcp_registry::entry::ServerEntry;
    /// use vmcp_registry::plan::Draft;
    ///
    /// let entry = ServerEntry::read(&serde_json::json!({
    ///     "name": "com.example/weather", "version": "1.2.0",
    ///     "packages": [{
    ///         "registryType": "npm", "identifier": "@example/weather", "version": "1.2.0",
    ///         "environmentVariables": [{ "name": "API_KEY", "isRequired": true, "isSecret": true }],
    ///     }],
    /// })).unwrap();
    /// let draft = Draft::new(&entry, None, &BTreeMap::new())?;
    /// assert_eq!(draft.missing, ["API_KEY"]);
    /// let draft = Draft::new(&entry, None, &BTreeMap::from([("API_KEY".to_owned(), "k3y".to_owned())]))?;
    /// let yaml = draft.yaml("weather", &|label| format!("WEATHER_{label}"));
    /// assert!(yaml.contains(r#"command: [npx, -y, "@example/weather@1.2.0"]"#), "{yaml}");
    /// assert!(yaml.contains("API_KEY: ${WEATHER_API_KEY}"), "{yaml}");
    /// # Ok::<(), vmcp_registry::plan::PlanError>(())
    /// ```
    pub fn new(
        entry: &ServerEntry,
        wanted: Option<InstallMethod>,
        answers: &BTreeMap<String, String>,
    ) -> Result<Draft, PlanError> {
        let mut refusals = Vec::new();
        for candidate in candidates(entry, wanted) {
            match candidate.draft(entry, answers) {
                Ok(mut draft) => {
                    draft.check_answers(answers)?;
                    let skipped = refusals.iter().map(|refusal| format!("not taken: {refusal}"));
                    draft.notes.extend(skipped);
                    return Ok(draft);
                }
                // A person's mistake is told at once: another way would not know the input.
                Err(error @ PlanError::Value { .. }) => return Err(error),
                Err(error) => refusals.push(error),
            }
        }
        match refusals.len() {
            0 => Err(PlanError::NoWay { name: entry.name.clone(), wanted }),
            1 => Err(refusals.remove(0)),
            _ => Err(PlanError::AllRefused(refusals.iter().map(ToString::to_string).collect())),
        }
    }

    /// Returns the values of secrets, by the name of their input.
    pub fn secrets(&self) -> BTreeMap<&str, &str> {
        let texts: Vec<&Text> = match &self.target {
            Target::Program { command, env } => command.iter().chain(env.values()).collect(),
            Target::Remote { url, headers, .. } => std::iter::once(url).chain(headers.values()).collect(),
        };
        texts.into_iter().flat_map(Text::secrets).collect()
    }

    fn check_answers(&self, answers: &BTreeMap<String, String>) -> Result<(), PlanError> {
        let is_asked = |label: &str| self.questions.iter().any(|question| question.label == label);
        match answers.keys().find(|label| !is_asked(label)) {
            None => Ok(()),
            Some(label) => Err(PlanError::UnknownInput {
                label: label.clone(),
                known: self.questions.iter().map(|question| question.label.clone()).collect(),
            }),
        }
    }
}

impl Candidate<'_> {
    fn draft(&self, entry: &ServerEntry, answers: &BTreeMap<String, String>) -> Result<Draft, PlanError> {
        let path = match self {
            Candidate::Remote(remote) => &remote.path,
            Candidate::Package(package, _) | Candidate::Other(package) => &package.path,
        };
        // The unreadable field may have been the decisive one.
        let is_below =
            |at: &str| at.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with(['.', '[']));
        if let Some(fault) = entry.findings.iter().find(|fault| is_below(&fault.path)) {
            return Err(refused(&fault.path, &fault.message));
        }
        // Of inputs with one label, a later one may mark it as secret: the first pass finds the marks.
        let mut secret_labels = BTreeSet::new();
        self.fill(Filler::new(answers, &mut secret_labels))?;
        self.fill(Filler::new(answers, &mut secret_labels))
    }

    fn fill(&self, filler: Filler<'_>) -> Result<Draft, PlanError> {
        match self {
            Candidate::Remote(remote) => remote::draft(remote, filler),
            Candidate::Package(package, way) => package::draft(package, *way, filler),
            Candidate::Other(package) => {
                let path = format!("{}.registryType", package.path);
                let known = "npm, pypi and oci are known";
                Err(refused(
                    &path,
                    &format!("packages of type `{}` cannot be started; {known}", package.registry_type),
                ))
            }
        }
    }
}

fn candidates(entry: &ServerEntry, wanted: Option<InstallMethod>) -> Vec<Candidate<'_>> {
    let remotes = |is_sse: bool| {
        entry
            .remotes
            .iter()
            .filter(move |remote| (remote.transport == "sse") == is_sse)
            .map(Candidate::Remote)
    };
    let packages = entry.packages.iter().map(|package| match package.registry_type.as_str() {
        "npm" => Candidate::Package(package, InstallMethod::Npm),
        "pypi" => Candidate::Package(package, InstallMethod::Pypi),
        "oci" | "docker" => Candidate::Package(package, InstallMethod::Oci),
        _ => Candidate::Other(package),
    });
    let all = remotes(false).chain(packages).chain(remotes(true));
    all.filter(|candidate| match (candidate, wanted) {
        (_, None) => true,
        (Candidate::Remote(_), Some(wanted)) => wanted == InstallMethod::Remote,
        (Candidate::Package(_, way), Some(wanted)) => *way == wanted,
        (Candidate::Other(_), Some(_)) => false,
    })
    .collect()
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn refused(path: &str, reason: &str) -> PlanError {
    PlanError::Refused { path: path.to_owned(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests;
