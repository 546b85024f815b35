//! Answers of the registry API v0.1 when vmcp is the registry: one entry for each profile, with vmcp's own
//! URL as its remote. IDEs of a company read them as their list of allowed servers.

use percent_encoding::percent_decode_str;
use serde::Serialize;
use serde_json::{Value, json};
use url::{Url, form_urlencoded};

use crate::entry::OFFICIAL_META;

/// Path below which the API is.
pub const BASE_PATH: &str = "/v0.1/servers";
/// Schema of the entries.
const SCHEMA: &str = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json";
/// Entries of a page unless the client asks for fewer or more.
const DEFAULT_LIMIT: usize = 30;
/// Most entries of a page.
const MAX_LIMIT: usize = 100;
/// Most bytes of a parameter of a query.
const MAX_PARAMETER_BYTES: usize = 1024;

/// The thing that a path of the API names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiResource {
    /// All servers.
    List,
    /// The versions of a server.
    Versions(String),
    /// One version of a server; `latest` is the newest.
    Version(String, String),
}

impl ApiResource {
    /// Reads a path. `None` if it names nothing of the API.
    ///
    /// # Examples
    ///
    /// ```
    /// use vmcp_registry::served::ApiResource;
    ///
    /// let versions = ApiResource::from_path("/v0.1/servers/com.example%2Fdev/versions");
    /// assert_eq!(versions, Some(ApiResource::Versions("com.example/dev".to_owned())));
    /// ```
    pub fn from_path(path: &str) -> Option<ApiResource> {
        let rest = path.strip_prefix(BASE_PATH)?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.is_empty() {
            return Some(ApiResource::List);
        }
        let decoded =
            |text: &str| percent_decode_str(text).decode_utf8().map(std::borrow::Cow::into_owned).ok();
        // A client that does not encode the slash of the name is understood, too.
        let (name, version) = rest.strip_prefix('/')?.rsplit_once("/versions")?;
        let name = decoded(name)?;
        match version.strip_prefix('/') {
            None if version.is_empty() => Some(ApiResource::Versions(name)),
            Some(version) if !version.is_empty() && !version.contains('/') => {
                Some(ApiResource::Version(name, decoded(version)?))
            }
            _ => None,
        }
    }
}

/// True for every path below the API, known or not.
pub fn is_api_path(path: &str) -> bool {
    path.strip_prefix(BASE_PATH).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Parameters of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListQuery {
    /// Name of the last entry of the page before.
    pub cursor: Option<String>,
    /// Most entries.
    pub limit: usize,
    /// Part of a name, in lower case.
    pub search: Option<String>,
    /// Wanted version; `latest` means every entry.
    pub version: Option<String>,
    /// Time since which entries must have changed, as it was written.
    pub updated_since: Option<String>,
}

impl ListQuery {
    /// Reads a query string; unknown parameters are ignored. The error names the parameter and its limit.
    pub fn read(query: &str) -> Result<ListQuery, String> {
        let mut read = ListQuery {
            cursor: None,
            limit: DEFAULT_LIMIT,
            search: None,
            version: None,
            updated_since: None,
        };
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if value.len() > MAX_PARAMETER_BYTES {
                return Err(format!("{name} has more than {MAX_PARAMETER_BYTES} bytes"));
            }
            let given = Some(value.to_string()).filter(|value| !value.is_empty());
            match &*name {
                "cursor" => read.cursor = given,
                "search" => read.search = given.map(|search| search.to_lowercase()),
                "version" => read.version = given.filter(|version| version != "latest"),
                "updated_since" => read.updated_since = given,
                "limit" => {
                    let limit = value.parse::<usize>().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
                    read.limit = limit.ok_or(format!("limit is no whole number from 1 to {MAX_LIMIT}"))?;
                }
                _ => {}
            }
        }
        Ok(read)
    }
}

/// One server that vmcp publishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedServer {
    /// Its name, `NAMESPACE/PROFILE`.
    pub name: String,
    /// Name for people.
    pub title: String,
    /// URL of the profile.
    pub url: Url,
    /// Header in which clients send a key, if they need one.
    pub key_header: Option<&'static str>,
}

/// Facts that all entries share.
#[derive(Debug, Clone, Copy)]
pub struct Publication<'a> {
    /// Version of the entries.
    pub version: &'a str,
    /// Time at which they were published, as RFC 3339.
    pub published_at: &'a str,
}

/// Body of a refusal.
#[derive(Serialize)]
struct Refusal<'a> {
    error: &'a str,
}

/// Returns the body of a refusal.
pub fn refusal(error: &str) -> String {
    serde_json::to_string(&Refusal { error }).unwrap_or_default()
}

impl Publication<'_> {
    /// Returns a page of the servers, which are sorted by name.
    pub fn list(self, servers: &[ServedServer], query: &ListQuery) -> String {
        let is_meant = |server: &&ServedServer| {
            query.search.as_ref().is_none_or(|search| server.name.to_lowercase().contains(search))
                && query.version.as_ref().is_none_or(|version| version == self.version)
                && query.cursor.as_ref().is_none_or(|cursor| server.name > *cursor)
        };
        let mut page: Vec<_> = servers.iter().filter(is_meant).take(query.limit + 1).collect();
        let has_more = page.len() > query.limit;
        page.truncate(query.limit);
        let next = page.last().filter(|_| has_more).map(|last| last.name.clone());
        self.page(&page, next)
    }

    /// Returns the only version of a server, in a list; `None` for an unknown name.
    pub fn versions(self, servers: &[ServedServer], name: &str) -> Option<String> {
        let server = servers.iter().find(|server| server.name == name)?;
        Some(self.page(&[server], None))
    }

    /// Returns one version of a server; `None` for an unknown one.
    pub fn version(self, servers: &[ServedServer], name: &str, version: &str) -> Option<String> {
        let server = servers.iter().find(|server| server.name == name)?;
        (version == "latest" || version == self.version).then(|| self.entry(server).to_string())
    }

    fn page(self, servers: &[&ServedServer], next: Option<String>) -> String {
        let mut metadata = json!({ "count": servers.len() });
        if let (Some(next), Some(metadata)) = (next, metadata.as_object_mut()) {
            metadata.insert("nextCursor".to_owned(), next.into());
        }
        let entries: Vec<_> = servers.iter().map(|server| self.entry(server)).collect();
        json!({ "servers": entries, "metadata": metadata }).to_string()
    }

    fn entry(self, server: &ServedServer) -> Value {
        let ServedServer { name, title, url, key_header } = server;
        let mut remote = json!({ "type": "streamable-http", "url": url.as_str() });
        if let (Some(header), Some(remote)) = (key_header, remote.as_object_mut()) {
            let key = json!({
                "name": header, "description": "Key of this client", "isRequired": true, "isSecret": true,
            });
            remote.insert("headers".to_owned(), json!([key]));
        }
        json!({
            "server": {
                "$schema": SCHEMA,
                "name": name,
                "title": title,
                "description": "MCP servers behind one endpoint, found by search",
                "version": self.version,
                "remotes": [remote],
            },
            "_meta": { OFFICIAL_META: {
                "status": "active",
                "publishedAt": self.published_at,
                "updatedAt": self.published_at,
                "isLatest": true,
            }},
        })
    }
}

/// Returns the namespace that a host stands for: its labels in reverse order; `local.vmcp` for an address or
/// a name without a dot.
///
/// # Examples
///
/// ```
/// use vmcp_registry::served::namespace_of_host;
///
/// assert_eq!(namespace_of_host("mcp.example.com"), "com.example.mcp");
/// assert_eq!(namespace_of_host("127.0.0.1"), "local.vmcp");
/// ```
pub fn namespace_of_host(host: &str) -> String {
    let is_label =
        |label: &str| !label.is_empty() && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    let labels: Vec<&str> = host.trim_end_matches('.').split('.').collect();
    let is_name = labels.len() > 1
        && labels.iter().all(|label| is_label(label))
        && labels.last().is_some_and(|last| last.starts_with(|c: char| c.is_ascii_alphabetic()));
    if is_name { labels.into_iter().rev().collect::<Vec<_>>().join(".") } else { "local.vmcp".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Page;

    /// The parts of the published schema that an entry of ours touches, written again: names, lengths,
    /// required keys, the shape of a remote and of the registry's own data.
    fn schema() -> jsonschema::Validator {
        let input = json!({ "type": "object", "required": ["name"], "properties": {
            "name": { "type": "string" }, "description": { "type": "string" },
            "isRequired": { "type": "boolean" }, "isSecret": { "type": "boolean" },
        }});
        let server = json!({ "type": "object", "required": ["name", "description", "version"], "properties": {
            "$schema": { "const": SCHEMA },
            "name": { "type": "string", "minLength": 3, "maxLength": 200,
                "pattern": "^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$" },
            "description": { "type": "string", "minLength": 1, "maxLength": 100 },
            "title": { "type": "string", "minLength": 1, "maxLength": 100 },
            "version": { "type": "string", "maxLength": 255, "not": { "const": "latest" } },
            "remotes": { "type": "array", "items": { "type": "object", "required": ["type", "url"],
                "properties": { "type": { "enum": ["streamable-http", "sse"] },
                    "url": { "type": "string", "pattern": "^https?://[^\\s]+$" },
                    "headers": { "type": "array", "items": input } } } },
        }, "additionalProperties": false });
        let official = json!({ "type": "object", "additionalProperties": false,
            "required": ["status", "publishedAt", "isLatest"], "properties": {
            "status": { "enum": ["active", "deprecated", "deleted"] },
            "publishedAt": { "type": "string", "pattern": "^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ$" },
            "updatedAt": { "type": "string" }, "isLatest": { "type": "boolean" },
        }});
        let entry = json!({ "type": "object", "required": ["server", "_meta"], "properties": {
            "server": server, "_meta": { "type": "object", "properties": { OFFICIAL_META: official } },
        }});
        let page = json!({ "type": "object", "required": ["servers", "metadata"], "properties": {
            "servers": { "type": "array", "items": entry },
            "metadata": { "type": "object", "required": ["count"],
                "properties": { "count": { "type": "integer" }, "nextCursor": { "type": "string" } } },
        }});
        jsonschema::validator_for(&page).unwrap()
    }

    fn servers() -> Vec<ServedServer> {
        let server = |profile: &str| ServedServer {
            name: format!("com.example/{profile}"),
            title: profile.to_owned(),
            url: Url::parse(&format!("https://mcp.example.com/mcp/{profile}")).unwrap(),
            key_header: (profile == "ops").then_some("X-API-Key"),
        };
        ["a", "dev", "ops", &"x".repeat(63)].map(server).into()
    }

    const PUBLICATION: Publication<'_> =
        Publication { version: "0.1.0", published_at: "2026-11-27T00:00:00Z" };

    #[test]
    fn pages_are_valid_end_and_are_read_by_our_own_reader() {
        let (schema, servers) = (schema(), servers());
        let mut names = Vec::new();
        let mut cursor = String::new();
        loop {
            let query = ListQuery::read(&format!("limit=3&cursor={cursor}")).unwrap();
            let text = PUBLICATION.list(&servers, &query);
            let json: Value = serde_json::from_str(&text).unwrap();
            let faults: Vec<_> = schema.iter_errors(&json).map(|error| error.to_string()).collect();
            assert!(faults.is_empty(), "{faults:?}");
            let page = Page::parse(&text).unwrap();
            assert!(page.skipped.is_empty() && page.entries.iter().all(|entry| entry.findings.is_empty()));
            names.extend(page.entries.into_iter().map(|entry| entry.name));
            let Some(next) = page.next_cursor else { break };
            cursor = next;
        }
        assert_eq!(names, servers.iter().map(|server| server.name.clone()).collect::<Vec<_>>());
        let broken: Value = serde_json::from_str(
            &PUBLICATION.list(&servers, &ListQuery::read("").unwrap()).replace("streamable-http", "http"),
        )
        .unwrap();
        assert!(!schema.is_valid(&broken), "the test's own schema refuses something");
    }

    #[test]
    fn one_version_is_found_by_name_number_and_latest() {
        let servers = servers();
        for (version, found) in [("latest", true), ("0.1.0", true), ("0.2.0", false)] {
            assert_eq!(
                PUBLICATION.version(&servers, "com.example/dev", version).is_some(),
                found,
                "{version}"
            );
        }
        assert!(PUBLICATION.versions(&servers, "com.example/none").is_none());
        let search = ListQuery::read("search=DEV&version=latest").unwrap();
        assert_eq!(Page::parse(&PUBLICATION.list(&servers, &search)).unwrap().entries.len(), 1);
    }

    #[test]
    fn paths_are_decoded_and_odd_ones_name_nothing() {
        let version =
            |name: &str, version: &str| Some(ApiResource::Version(name.to_owned(), version.to_owned()));
        for (path, resource) in [
            ("/v0.1/servers", Some(ApiResource::List)),
            ("/v0.1/servers/", Some(ApiResource::List)),
            ("/v0.1/servers/a.b%2Fc/versions/1.0%2Bx", version("a.b/c", "1.0+x")),
            ("/v0.1/servers/a.b/c/versions/latest", version("a.b/c", "latest")),
            ("/v0.1/servers/a.b%2Fc", None),
            ("/v0.1/servers/a.b%2Fc/versions/1/2", None),
            ("/v0.1/servers/%FF/versions", None),
            ("/v0.1/serversx", None),
            ("/v0/servers", None),
        ] {
            assert_eq!(ApiResource::from_path(path), resource, "{path}");
        }
        for query in ["limit=0", "limit=101", "limit=x"] {
            assert!(ListQuery::read(query).unwrap_err().contains("limit"), "{query}");
        }
    }
}
