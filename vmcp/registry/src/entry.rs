//! [`ServerEntry`]: one `server.json`, with the status that its registry gives it.

use std::cell::RefCell;

use serde_json::{Map, Value};

use crate::fields::Fields;
pub use crate::fields::Finding;
use crate::identifiers::is_server_name;
use crate::inputs::{Argument, Input, NamedInput};

/// Key of the registry's own data in `_meta`.
pub(crate) const OFFICIAL_META: &str = "io.modelcontextprotocol.registry/official";
/// Most bytes of a version (the schema's `maxLength`).
const MAX_VERSION_BYTES: usize = 255;

/// Stage in the life of an entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EntryStatus {
    /// In use.
    #[default]
    Active,
    /// Not recommended any more.
    Deprecated,
    /// Withdrawn, such as for malware or spam; never found and never added.
    Deleted,
}

/// One version of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerEntry {
    /// Name in reverse-DNS form, such as `com.example/weather`.
    pub name: String,
    /// Name for people.
    pub title: Option<String>,
    /// One sentence; empty if the entry has none.
    pub description: String,
    /// Version of the server.
    pub version: String,
    /// Home page.
    pub website: Option<String>,
    /// URL of the source code.
    pub repository: Option<String>,
    /// Ways to start it here.
    pub packages: Vec<Package>,
    /// Addresses at which it runs.
    pub remotes: Vec<Remote>,
    /// Stage in its life.
    pub status: EntryStatus,
    /// Reason for the status.
    pub status_message: Option<String>,
    /// True if the registry calls this version the latest; `None` if it says nothing.
    pub is_latest: Option<bool>,
    /// Fields that cannot be used.
    pub findings: Vec<Finding>,
}

/// A package of npm, PyPI, an image registry, or another type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Place in the entry, such as `packages[0]`.
    pub path: String,
    /// Type of its registry: `npm`, `pypi`, `oci`, `nuget`, `mcpb`.
    pub registry_type: String,
    /// URL of its registry; `None`: the usual one.
    pub registry_base_url: Option<String>,
    /// Its name there.
    pub identifier: String,
    /// Its exact version.
    pub version: Option<String>,
    /// Digest of its file, as lower-case hexadecimal.
    pub file_sha256: Option<String>,
    /// Program that should start it.
    pub runtime_hint: Option<String>,
    /// Arguments of that program.
    pub runtime_arguments: Vec<Argument>,
    /// Arguments of the server.
    pub package_arguments: Vec<Argument>,
    /// Environment of the server.
    pub environment: Vec<NamedInput>,
    /// Transport of the server: `stdio`, `streamable-http`, `sse`.
    pub transport: String,
}

/// An address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// Place in the entry, such as `remotes[0]`.
    pub path: String,
    /// `streamable-http` or `sse`.
    pub transport: String,
    /// Its URL, with `{NAME}` for each of `variables`.
    pub url: Input,
    /// Its headers.
    pub headers: Vec<NamedInput>,
}

impl ServerEntry {
    /// Reads an entry: a `server.json`, or one with the registry's `_meta` as the API answers it.
    ///
    /// # Errors
    ///
    /// A finding if it has no usable name or version; every other fault is in
    /// [`findings`](ServerEntry::findings).
    ///
    /// # Examples
    ///
    /// ```
    /// use vmcp_registry::entry::ServerEntry;
    ///
    /// let json = serde_json::json!({ "name": "com.example/weather", "version": "1.0.0", "packages": 7 });
    /// let entry = ServerEntry::read(&json)?;
    /// assert_eq!(entry.findings[0].to_string(), "packages: not a list");
    /// # Ok::<(), vmcp_registry::entry::Finding>(())
    /// ```
    pub fn read(json: &Value) -> Result<ServerEntry, Finding> {
        let nothing = Map::new();
        let wrapped = json.get("server").and_then(Value::as_object);
        let Some(object) = wrapped.or_else(|| json.as_object()) else {
            return Err(finding("server", "not an object"));
        };
        let findings = RefCell::new(Vec::new());
        let fields = Fields::new(object, &findings);
        let meta = json.get("_meta").and_then(|meta| meta.get(OFFICIAL_META)).and_then(Value::as_object);
        let meta = Fields::new(meta.unwrap_or(&nothing), &findings);
        let Some(name) = fields.text("", "name").filter(|name| is_server_name(name)) else {
            let message =
                "not a name such as com.example/weather, of 3 to 200 letters, digits, `.`, `-`, `_`";
            return Err(finding("name", message));
        };
        let older =
            fields.object("", "versionDetail").and_then(|older| older.text("versionDetail", "version"));
        let version = fields.text("", "version").or(older);
        let Some(version) = version.filter(|version| is_plain_version(version)) else {
            return Err(finding(
                "version",
                &format!("{name} has no version of at most {MAX_VERSION_BYTES} bytes"),
            ));
        };
        // The registry's word first: the publisher writes the other one.
        let status = meta.text(OFFICIAL_META, "status").or_else(|| fields.text("", "status"));
        let entry = ServerEntry {
            title: fields.words("", "title"),
            description: fields.words("", "description").unwrap_or_default(),
            website: fields.words("", "websiteUrl"),
            repository: fields.object("", "repository").and_then(|of| of.words("repository", "url")),
            packages: Package::read_list(fields),
            remotes: Remote::read_list(fields),
            status: match status.as_deref() {
                Some("deprecated") => EntryStatus::Deprecated,
                Some("deleted") => EntryStatus::Deleted,
                _ => EntryStatus::Active,
            },
            status_message: meta.words(OFFICIAL_META, "statusMessage"),
            is_latest: meta.is_latest(),
            findings: Vec::new(),
            name,
            version,
        };
        Ok(ServerEntry { findings: findings.take(), ..entry })
    }
}

impl Fields<'_> {
    fn is_latest(self) -> Option<bool> {
        self.has("isLatest").then(|| self.flag(OFFICIAL_META, "isLatest"))
    }
}

impl Package {
    fn read_list(fields: Fields<'_>) -> Vec<Package> {
        let read = |(path, fields): (String, Fields<'_>)| {
            let (Some(registry_type), Some(identifier)) =
                (fields.text(&path, "registryType"), fields.text(&path, "identifier"))
            else {
                fields.note(&path, "`registryType` or `identifier` is missing");
                return None;
            };
            let transport = fields.object(&path, "transport");
            let transport = transport.and_then(|of| of.text(&format!("{path}.transport"), "type"));
            Some(Package {
                registry_type,
                registry_base_url: fields.text(&path, "registryBaseUrl"),
                identifier,
                version: fields.text(&path, "version"),
                file_sha256: fields.text(&path, "fileSha256"),
                runtime_hint: fields.text(&path, "runtimeHint"),
                runtime_arguments: Argument::read_list(fields, &path, "runtimeArguments"),
                package_arguments: Argument::read_list(fields, &path, "packageArguments"),
                environment: NamedInput::read_list(fields, &path, "environmentVariables"),
                // Schemas of before July 2025 know no transport: packages were programs.
                transport: transport.unwrap_or_else(|| "stdio".to_owned()),
                path,
            })
        };
        fields.objects("", "packages").into_iter().filter_map(read).collect()
    }
}

impl Remote {
    fn read_list(fields: Fields<'_>) -> Vec<Remote> {
        let read = |(path, fields): (String, Fields<'_>)| {
            let transport = fields.text(&path, "type").or_else(|| fields.text(&path, "transportType"));
            let Some(url) = fields.text(&path, "url") else {
                fields.note(&path, "`url` is missing");
                return None;
            };
            let input = Input::read(fields, &path);
            let url =
                Input { value: Some(url), variables: input.variables, is_required: true, ..Input::default() };
            Some(Remote {
                transport: transport.unwrap_or_else(|| "streamable-http".to_owned()),
                url,
                headers: NamedInput::read_list(fields, &path, "headers"),
                path,
            })
        };
        fields.objects("", "remotes").into_iter().filter_map(read).collect()
    }
}

fn is_plain_version(version: &str) -> bool {
    (1..=MAX_VERSION_BYTES).contains(&version.len()) && version.chars().all(|c| c.is_ascii_graphic())
}

fn finding(path: &str, message: &str) -> Finding {
    Finding { path: path.to_owned(), message: message.to_owned() }
}
