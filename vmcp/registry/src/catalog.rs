//! [`RegistryCatalog`]: entries by name and version, and search over the latest ones.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use vmcp_search::{Document, Index, Query};

use crate::entry::{EntryStatus, ServerEntry};

/// The entries of one source.
#[derive(Debug, Default)]
pub struct RegistryCatalog {
    /// Versions of each server, the latest first.
    servers: BTreeMap<String, Vec<ServerEntry>>,
}

/// Reason why a name leads to no entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// No server has the name.
    #[error("there is no server `{0}`")]
    Unknown(String),
    /// Several namespaces have a server of that name.
    #[error("`{name}` is the name of several servers: {}", .candidates.join(", "))]
    Ambiguous {
        /// The name that was asked for.
        name: String,
        /// Whole names of the servers.
        candidates: Vec<String>,
    },
    /// The server has no such version here.
    #[error("`{name}` has no version {version}; known: {}", .known.join(", "))]
    Version {
        /// Name of the server.
        name: String,
        /// The version that was asked for.
        version: String,
        /// Versions that are known.
        known: Vec<String>,
    },
}

impl RegistryCatalog {
    /// Sorts the entries. Withdrawn ones are left out; of two entries with one name and version the first
    /// counts.
    pub fn new(entries: impl IntoIterator<Item = ServerEntry>) -> RegistryCatalog {
        let mut servers: BTreeMap<String, Vec<ServerEntry>> = BTreeMap::new();
        for entry in entries.into_iter().filter(|entry| entry.status != EntryStatus::Deleted) {
            let versions = servers.entry(entry.name.clone()).or_default();
            if !versions.iter().any(|known| known.version == entry.version) {
                versions.push(entry);
            }
        }
        for versions in servers.values_mut() {
            versions.sort_by(|one, other| {
                let is_latest = |entry: &ServerEntry| entry.is_latest == Some(true);
                is_latest(other).cmp(&is_latest(one)).then_with(|| by_version(&other.version, &one.version))
            });
        }
        RegistryCatalog { servers }
    }

    /// Number of servers.
    pub fn len(&self) -> usize {
        self.servers.len()
    }

    /// True without any server.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// Returns the latest version of each server, by name.
    pub fn latest(&self) -> Vec<&ServerEntry> {
        self.servers.values().filter_map(|versions| versions.first()).collect()
    }

    /// Returns the known versions of a server, the latest first.
    pub fn versions(&self, name: &str) -> &[ServerEntry] {
        self.servers.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns a server by its whole name, or by the part behind the slash if one server alone has it; the
    /// latest version, unless one is named.
    pub fn find(&self, name: &str, version: Option<&str>) -> Result<&ServerEntry, LookupError> {
        let unknown = || LookupError::Unknown(name.to_owned());
        let versions = match self.servers.get(name) {
            Some(versions) => versions,
            None => self.only_namesake(name)?,
        };
        let latest = versions.first().ok_or_else(unknown)?;
        let Some(version) = version.filter(|version| *version != "latest") else { return Ok(latest) };
        versions.iter().find(|entry| entry.version == version).ok_or_else(|| LookupError::Version {
            name: latest.name.clone(),
            version: version.to_owned(),
            known: versions.iter().map(|entry| entry.version.clone()).collect(),
        })
    }

    /// Returns the versions of the one server with this name behind its slash.
    fn only_namesake(&self, name: &str) -> Result<&Vec<ServerEntry>, LookupError> {
        let is_meant = |known: &str| known.rsplit('/').next() == Some(name);
        let mut meant = self.servers.iter().filter(|(known, _)| is_meant(known));
        let (_, versions) = meant.next().ok_or_else(|| LookupError::Unknown(name.to_owned()))?;
        if meant.next().is_none() {
            return Ok(versions);
        }
        let candidates = self.servers.keys().filter(|known| is_meant(known)).cloned().collect();
        Err(LookupError::Ambiguous { name: name.to_owned(), candidates })
    }

    /// Ranks the latest versions for some words by BM25F, best first; without words, all by name.
    pub fn search(&self, words: &str, limit: usize) -> Vec<&ServerEntry> {
        let latest = self.latest();
        if words.trim().is_empty() {
            return latest.into_iter().take(limit).collect();
        }
        let documents: Vec<_> = latest.iter().map(|entry| document(entry)).collect();
        let ranking = Index::new(&documents).search(&Query { text: words, limit, ..Query::default() }, None);
        ranking.hits.iter().filter_map(|hit| latest.get(hit.document).copied()).collect()
    }
}

fn document(entry: &ServerEntry) -> Document {
    let (namespace, name) = entry.name.split_once('/').unwrap_or(("", &entry.name));
    let packages = entry.packages.iter().map(|package| (package.identifier.clone(), String::new()));
    let title = entry.title.iter().map(|title| (title.clone(), String::new()));
    Document {
        server: namespace.replace('.', " "),
        name: name.to_owned(),
        description: entry.description.clone(),
        parameters: title.chain(packages).collect(),
    }
}

/// Compares versions part by part: numbers as numbers, a release after its pre-releases.
fn by_version(one: &str, other: &str) -> Ordering {
    let split = |version: &str| {
        let version = version.split_once('+').map_or(version, |(version, _)| version).trim_start_matches('v');
        let (core, pre) = version.split_once('-').unwrap_or((version, ""));
        (parts(core), pre.is_empty(), parts(pre))
    };
    split(one).cmp(&split(other))
}

fn parts(text: &str) -> Vec<(u64, String)> {
    // Words sort after numbers, as semantic versioning has it.
    let part = |part: &str| part.parse().map_or_else(|_| (u64::MAX, part.to_owned()), |n| (n, String::new()));
    text.split('.').map(part).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(name: &str, version: &str, description: &str) -> ServerEntry {
        let json = json!({"name": name, "version": version, "description": description});
        ServerEntry::read(&json).unwrap()
    }

    #[test]
    fn the_latest_version_is_the_highest_unless_the_registry_says_otherwise() {
        let versions = ["1.9.0", "1.10.0-beta.2", "1.10.0", "1.2.0"];
        let catalog = RegistryCatalog::new(versions.map(|version| entry("a.b/c", version, "x")));
        assert_eq!(catalog.find("c", None).unwrap().version, "1.10.0");
        assert_eq!(catalog.find("a.b/c", Some("1.2.0")).unwrap().version, "1.2.0");
        let unknown = catalog.find("a.b/c", Some("7")).unwrap_err().to_string();
        assert_eq!(unknown, "`a.b/c` has no version 7; known: 1.10.0, 1.10.0-beta.2, 1.9.0, 1.2.0");
        let official = ServerEntry { is_latest: Some(true), ..entry("a.b/c", "1.2.0", "x") };
        let catalog = RegistryCatalog::new([entry("a.b/c", "1.9.0", "x"), official]);
        assert_eq!(catalog.find("c", Some("latest")).unwrap().version, "1.2.0");
    }

    #[test]
    fn a_short_name_must_be_one_and_a_withdrawn_server_is_unknown() {
        let deleted = ServerEntry { status: EntryStatus::Deleted, ..entry("com.gone/x", "1", "x") };
        let catalog = RegistryCatalog::new([
            entry("com.one/github", "1", ""),
            entry("com.evil/github", "1", ""),
            deleted,
        ]);
        let ambiguous = catalog.find("github", None).unwrap_err().to_string();
        assert_eq!(ambiguous, "`github` is the name of several servers: com.evil/github, com.one/github");
        assert_eq!(catalog.find("x", None).unwrap_err(), LookupError::Unknown("x".to_owned()));
        assert_eq!(catalog.len(), 2);
    }

    #[test]
    fn search_ranks_by_name_and_description() {
        let catalog = RegistryCatalog::new([
            entry("com.example/files", "1", "Reads and writes files in a folder"),
            entry("com.example/weather", "1", "Forecasts for a city"),
            entry("com.example/city-guide", "1", "Museums and food"),
        ]);
        let names = |words| catalog.search(words, 8).iter().map(|entry| &*entry.name).collect::<Vec<_>>();
        assert_eq!(names("weather forecast")[0], "com.example/weather");
        assert_eq!(names("city")[0], "com.example/city-guide");
        assert!(names("kubernetes").is_empty());
        assert_eq!(names(" ").len(), 3);
    }
}
