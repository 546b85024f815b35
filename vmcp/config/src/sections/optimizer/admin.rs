//! `optimizer.admin`: servers that clients may add, enable, disable and remove by tools of vmcp's own.

mod url_pattern;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::{Host, Url};

use self::url_pattern::UrlPattern;
use crate::addresses::{self, ReachableAddresses};
use crate::problems::{self, Report};
use crate::rules::NamePattern;
use crate::sections::backend::Transport;
use crate::values::http_url;

/// Most rules; more are a mistake.
const MAX_RULES: usize = 100;
/// Longest URL or path of a registry, in bytes.
const MAX_REGISTRY_BYTES: usize = 2048;
/// Longest name of an image, in bytes, as in an MCPServer.
const MAX_IMAGE_BYTES: usize = 1024;
const ALLOW: &str = "optimizer.admin.allow";
const REGISTRY: &str = "optimizer.admin.registry";

/// Validated settings of the tools that change servers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Admin {
    /// Servers that clients may manage; empty: each change needs the user's yes.
    pub allow: Vec<ServerRule>,
    /// Registry whose servers clients may find: its URL, a file of entries, or a folder of such files;
    /// `None`: the official one.
    pub registry: Option<String>,
}

/// A kind of servers that clients may manage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerRule {
    /// Programs with this command line.
    Program {
        /// Patterns of the program and its arguments, one for each.
        words: Vec<WordPattern>,
        /// Names of variables that a client may set.
        env: Vec<NamePattern>,
        /// Image in whose pod the program runs, in a cluster.
        image: Option<String>,
        /// Existing secrets that a client may name for these programs.
        secrets: Vec<String>,
    },
    /// Images whose own program a cluster runs.
    Image {
        /// Pattern of the image, with its tag or digest.
        image: WordPattern,
        /// Patterns of the arguments, one for each.
        args: Vec<WordPattern>,
        /// Names of variables that a client may set.
        env: Vec<NamePattern>,
        /// Existing secrets that a client may name for these images.
        secrets: Vec<String>,
    },
    /// Servers at these addresses.
    Remote {
        /// Pattern of the address.
        url: UrlPattern,
        /// Names of headers that a client may set, in lower case.
        headers: Vec<String>,
        /// Existing secrets that a client may name for these addresses.
        secrets: Vec<String>,
    },
}

/// Word of a command line, with at most one `*`, which stands for letters, digits, `-`, `_` and `.` only: it
/// reaches no other registry, version, folder or option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordPattern(String);

impl WordPattern {
    fn matches(&self, word: &str) -> bool {
        let Some((head, tail)) = self.0.split_once('*') else { return self.0 == word };
        let middle = word.strip_prefix(head).and_then(|rest| rest.strip_suffix(tail));
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        // `..` leads out of a folder, and a word that begins with `-` is an option.
        let is_safe = !word.contains("..") && (!head.is_empty() || !word.starts_with('-'));
        is_safe && middle.is_some_and(|middle| !middle.is_empty() && middle.chars().all(plain))
    }
}

/// Address or command line of a server, with the names of the values that it gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerSource<'a> {
    /// A program that is started here.
    Program {
        /// The program and its arguments.
        words: Vec<&'a str>,
        /// Names of its variables.
        env: Vec<&'a str>,
    },
    /// An image, whose own program a cluster starts.
    Image {
        /// The image, with its tag or digest.
        image: &'a str,
        /// Arguments of the program.
        args: Vec<&'a str>,
        /// Names of its variables.
        env: Vec<&'a str>,
    },
    /// A server at an address.
    Remote {
        /// The address.
        url: &'a Url,
        /// Names of the headers of every request.
        headers: Vec<&'a str>,
    },
}

impl<'a> From<&'a Transport> for ServerSource<'a> {
    fn from(transport: &'a Transport) -> ServerSource<'a> {
        match transport {
            Transport::Stdio { command, args, env, .. } => ServerSource::Program {
                words: std::iter::once(command).chain(args).map(String::as_str).collect(),
                env: env.keys().map(String::as_str).collect(),
            },
            Transport::Http { url, headers }
            | Transport::Sse { url, headers }
            | Transport::WebSocket { url, headers } => {
                ServerSource::Remote { url, headers: headers.keys().map(String::as_str).collect() }
            }
        }
    }
}

impl Admin {
    /// True if a rule names the server, and each value that it gets.
    ///
    /// # Examples
    ///
    /// ```
    /// use vmcp_config::ServerSource;
    ///
    /// let text = "optimizer: { admin: { allow: [{ command: [npx, -y, '@acme/mcp-*'] }] } }";
    /// let admin = vmcp_config::load(text, "vmcp.yaml", &|_| None)?.config.optimizer.admin;
    /// let runs = |package| ServerSource::Program { words: vec!["npx", "-y", package], env: vec![] };
    /// assert!(admin.names(&runs("@acme/mcp-time")));
    /// assert!(!admin.names(&runs("@acme/mcp-time@npm:other")));
    /// # Ok::<(), vmcp_config::Problems>(())
    /// ```
    pub fn names(&self, server: &ServerSource<'_>) -> bool {
        self.allow.iter().any(|rule| rule.names(server))
    }

    /// Returns the image in whose pod a cluster runs the program, from the first rule that names it and an
    /// image.
    pub fn image_of(&self, server: &ServerSource<'_>) -> Option<&str> {
        let mut rules = self.allow.iter().filter(|rule| rule.names(server));
        rules.find_map(|rule| match rule {
            ServerRule::Program { image, .. } => image.as_deref(),
            ServerRule::Image { .. } | ServerRule::Remote { .. } => None,
        })
    }

    /// True if a rule names the server, and lets clients name these existing secrets for it.
    ///
    /// # Examples
    ///
    /// ```
    /// use vmcp_config::ServerSource;
    ///
    /// let rule = "{ url: https://mcp.example.com/mcp, headers: [Authorization], secrets: [github] }";
    /// let file = format!("optimizer: {{ admin: {{ allow: [{rule}] }} }}");
    /// let admin = vmcp_config::load(&file, "vmcp.yaml", &|_| None)?.config.optimizer.admin;
    /// let url = "https://mcp.example.com/mcp".parse().unwrap();
    /// let source = ServerSource::Remote { url: &url, headers: vec!["authorization"] };
    /// assert!(admin.lends(&source, &["github"]) && !admin.lends(&source, &["github", "db"]));
    /// # Ok::<(), vmcp_config::Problems>(())
    /// ```
    pub fn lends(&self, server: &ServerSource<'_>, secrets: &[&str]) -> bool {
        self.allow.iter().any(|rule| {
            let lent = rule.secrets();
            rule.names(server) && secrets.iter().all(|wanted| lent.iter().any(|one| one == wanted))
        })
    }

    /// Returns the addresses that the host of an added server may have. A host that a rule names in full, no
    /// `*`, may have a private or a loopback address, and so may a host that visibly leads inside: the user
    /// who agreed to it has read so. An address that a rule names is reached whatever it is.
    ///
    /// # Examples
    ///
    /// ```
    /// use vmcp_config::addresses::ReachableAddresses;
    ///
    /// let file = "optimizer: { admin: { allow: [{ url: https://mcp.corp.example/* }] } }";
    /// let admin = vmcp_config::load(file, "vmcp.yaml", &|_| None)?.config.optimizer.admin;
    /// let of = |url: &str| admin.addresses_of(&url.parse().unwrap());
    /// assert_eq!(of("https://mcp.corp.example/mcp"), ReachableAddresses::Local);
    /// assert_eq!(of("https://mcp.example.com/mcp"), ReachableAddresses::Public);
    /// # Ok::<(), vmcp_config::Problems>(())
    /// ```
    pub fn addresses_of(&self, url: &Url) -> ReachableAddresses {
        let is_named = self
            .allow
            .iter()
            .any(|rule| matches!(rule, ServerRule::Remote { url: pattern, .. } if pattern.names_host(url)));
        let is_domain = matches!(url.host(), Some(Host::Domain(_)));
        if is_named && !is_domain {
            ReachableAddresses::Any
        } else if is_named || addresses::is_visibly_inside(url) {
            ReachableAddresses::Local
        } else {
            ReachableAddresses::Public
        }
    }

    /// True if a rule names the program together with this image.
    pub fn names_in_image(&self, program: &ServerSource<'_>, image: &str) -> bool {
        self.allow.iter().any(|rule| {
            matches!(rule, ServerRule::Program { image: Some(named), .. } if named == image)
                && rule.names(program)
        })
    }
}

impl ServerRule {
    fn secrets(&self) -> &[String] {
        match self {
            ServerRule::Program { secrets, .. }
            | ServerRule::Image { secrets, .. }
            | ServerRule::Remote { secrets, .. } => secrets,
        }
    }

    fn names(&self, server: &ServerSource<'_>) -> bool {
        let fits = |patterns: &[WordPattern], words: &[&str]| {
            patterns.len() == words.len()
                && patterns.iter().zip(words).all(|(pattern, word)| pattern.matches(word))
        };
        let may_get = |patterns: &[NamePattern], names: &[&str]| {
            names.iter().all(|name| patterns.iter().any(|pattern| pattern.matches(name)))
        };
        match (self, server) {
            (ServerRule::Program { words, env, .. }, ServerSource::Program { words: given, env: set }) => {
                fits(words, given) && may_get(env, set)
            }
            (
                ServerRule::Image { image, args, env, .. },
                ServerSource::Image { image: wanted, args: given, env: set },
            ) => image.matches(wanted) && fits(args, given) && may_get(env, set),
            (ServerRule::Remote { url, headers, .. }, ServerSource::Remote { url: given, headers: set }) => {
                let may_set = |name: &&str| headers.iter().any(|header| header.eq_ignore_ascii_case(name));
                url.matches(given) && set.iter().all(may_set)
            }
            _ => false,
        }
    }
}

/// Servers that clients may manage by `add_mcp_server`, `install_server`, `enable_mcp_server`,
/// `disable_mcp_server` and `remove_mcp_server` of `optimizer.tools`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ServerAdmin")]
pub struct RawAdmin {
    /// Servers that clients may manage; all others are refused. Empty: any, each with the user's yes. A user
    /// is asked wherever the client can ask; a client that cannot needs a rule.
    pub allow: Vec<RawServerRule>,
    /// Registry of `search_registry` and `install_server`: its URL, a file of entries, or a folder of such
    /// files. Default: the official one, `https://registry.modelcontextprotocol.io`. The variable
    /// `VMCP_REGISTRY_TOKEN` holds a bearer token for the registry that is named here.
    pub registry: Option<String>,
}

/// A kind of servers: programs by `command`, images by `image` alone, or addresses by `url`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ServerRule")]
pub struct RawServerRule {
    /// Program and arguments, all of them, in order. A word may have one `*`, which stands for letters,
    /// digits, `-`, `_` and `.`; the program may have none. Excludes `url`.
    pub command: Vec<String>,
    /// Names of variables that a client may set for these programs; `*` stands for any characters.
    pub env: Vec<String>,
    /// Address with scheme and host. A host may begin with `*.`, a path may end with `*`. Excludes `command`.
    pub url: Option<String>,
    /// Names of headers that a client may set for these addresses.
    pub headers: Vec<String>,
    /// Image that has the program, for a cluster: it runs there in a pod of its own. Without it, a cluster
    /// runs none of these programs. On a laptop, vmcp starts the program itself. Without `command`: the image
    /// of a registry's server, whose own program a cluster runs, such as `ghcr.io/acme/mcp-time:*`; one `*`
    /// stands for letters, digits, `-`, `_` and `.`, behind the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Arguments of the image's own program, all of them, in order, as in `command`. Only with `image` alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Existing secrets that a client may name for a value of these servers, as
    /// `{"secretRef": {"name": NAME}}`: secrets of `vmcp secret`; in a cluster Secrets whose names begin with
    /// the name of the VirtualMCPServer and `.shared.`, as `{"secretRef": {"name": NAME, "key": KEY}}`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
}

impl RawAdmin {
    pub(crate) fn validate(&self, report: &mut Report) -> Admin {
        if self.allow.len() > MAX_RULES {
            let message = format!("{} rules", self.allow.len());
            report.problem(ALLOW, message, format!("keep to at most {MAX_RULES}"));
        }
        let rules = self.allow.iter().enumerate();
        let rules = rules.filter_map(|(index, rule)| rule.validate(&problems::item(ALLOW, index), report));
        let allow = rules.collect();
        Admin { allow, registry: self.validate_registry(report) }
    }

    fn validate_registry(&self, report: &mut Report) -> Option<String> {
        let registry = self.registry.as_deref()?.trim();
        if registry.is_empty() || registry.len() > MAX_REGISTRY_BYTES {
            let remedy = format!("name a URL, a file or a folder, in at most {MAX_REGISTRY_BYTES} bytes");
            report.problem(REGISTRY, "not the place of a registry", remedy);
            return None;
        }
        if registry.contains("://") {
            http_url::validate(registry, REGISTRY, report)?;
        }
        Some(registry.to_owned())
    }
}

impl RawServerRule {
    fn validate(&self, path: &str, report: &mut Report) -> Option<ServerRule> {
        for (index, name) in self.secrets.iter().enumerate() {
            if name.trim().is_empty() || name.contains('*') {
                let path = problems::item(&problems::key(path, "secrets"), index);
                report.problem(&path, "not the name of a secret", "write each name in full");
            }
        }
        match (&self.url, self.command.split_first(), &self.image) {
            (None, Some((program, arguments)), _) => {
                if program.is_empty() || program.contains('*') {
                    let path = problems::item(&problems::key(path, "command"), 0);
                    report.problem(&path, "no single program", "name the program in full, such as `npx`");
                }
                check_stars(arguments, "command", 1, path, report);
                check_absent(&self.headers, "headers", "env", path, report);
                check_absent(&self.args, "args", "command", path, report);
                self.check_image(path, report);
                Some(ServerRule::Program {
                    words: self.command.iter().cloned().map(WordPattern).collect(),
                    env: self.env.iter().map(NamePattern::new).collect(),
                    image: self.image.clone(),
                    secrets: self.secrets.clone(),
                })
            }
            (None, None, Some(image)) => {
                check_stars(&self.args, "args", 0, path, report);
                check_absent(&self.headers, "headers", "env", path, report);
                check_image_pattern(image, path, report);
                Some(ServerRule::Image {
                    image: WordPattern(image.clone()),
                    args: self.args.iter().cloned().map(WordPattern).collect(),
                    env: self.env.iter().map(NamePattern::new).collect(),
                    secrets: self.secrets.clone(),
                })
            }
            (Some(url), None, image) => {
                check_absent(&self.env, "env", "headers", path, report);
                if !self.args.is_empty() {
                    let remedy = "remove them, or name the image by `image`";
                    report.problem(&problems::key(path, "args"), "no program runs for an address", remedy);
                }
                if image.is_some() {
                    let remedy = "remove it, or name the programs by `command`";
                    report.problem(&problems::key(path, "image"), "no program runs for an address", remedy);
                }
                let url = UrlPattern::validate(url, &problems::key(path, "url"), report)?;
                let headers = self.headers.iter().map(|name| name.to_ascii_lowercase()).collect();
                Some(ServerRule::Remote { url, headers, secrets: self.secrets.clone() })
            }
            (_, command, _) => {
                let message = match command {
                    None => "neither `command` nor `url`",
                    Some(_) => "both `command` and `url`",
                };
                report.problem(path, message, "name the programs by `command`, or the addresses by `url`");
                None
            }
        }
    }

    fn check_image(&self, path: &str, report: &mut Report) {
        let is_word =
            |image: &str| !image.is_empty() && !image.contains(|c: char| c.is_whitespace() || c == '*');
        if self.image.as_deref().is_some_and(|image| !is_word(image) || image.len() > MAX_IMAGE_BYTES) {
            let remedy =
                format!("name one image in full, such as `node:22`, in at most {MAX_IMAGE_BYTES} bytes");
            report.problem(&problems::key(path, "image"), "not the name of an image", remedy);
        }
    }
}

/// Reports words with more than one `*`; `first` is the number of the first one in its list.
fn check_stars(words: &[String], field: &str, first: usize, path: &str, report: &mut Report) {
    for (index, word) in words.iter().enumerate() {
        if word.matches('*').count() > 1 {
            let path = problems::item(&problems::key(path, field), index + first);
            report.problem(&path, "more than one `*`", "keep one");
        }
    }
}

/// Reports a pattern of images that reaches more than one registry, or that is too long.
fn check_image_pattern(image: &str, path: &str, report: &mut Report) {
    let host = image.split_once('/').map_or("", |(host, _)| host);
    let is_pattern = !image.is_empty()
        && image.len() <= MAX_IMAGE_BYTES
        && !image.contains(char::is_whitespace)
        && image.matches('*').count() <= 1
        && !host.contains('*');
    if !is_pattern {
        let remedy = format!(
            "name images with one `*` behind the host, such as `ghcr.io/acme/mcp-time:*`, in at most \
             {MAX_IMAGE_BYTES} bytes"
        );
        report.problem(&problems::key(path, "image"), "not the name of an image", remedy);
    }
}

/// Reports values that this kind of servers does not get.
fn check_absent(values: &[String], field: &str, other: &str, path: &str, report: &mut Report) {
    if !values.is_empty() {
        let remedy = format!("write the names into `{other}`, or remove them");
        report.problem(&problems::key(path, field), "this server gets none", remedy);
    }
}

#[cfg(test)]
mod tests;
