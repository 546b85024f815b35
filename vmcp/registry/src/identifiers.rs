//! Grammars of names and versions. A name outside of its grammar is refused: it could be a flag, a path, a
//! URL, or look like another name.

/// Most bytes of a server's name (the schema's `maxLength`).
const MAX_SERVER_NAME: usize = 200;
/// Most bytes of a name at npm (validate-npm-package-name).
const MAX_NPM_NAME: usize = 214;
/// Most bytes of a name at PyPI; the longest real ones have about 80.
const MAX_PYPI_NAME: usize = 128;
/// Most bytes of a repository in an image's name (distribution specification).
const MAX_IMAGE_PATH: usize = 255;
/// Most bytes of a tag (distribution specification).
const MAX_TAG: usize = 128;
/// Most bytes of a package's version.
const MAX_VERSION: usize = 128;

/// Returns true for a server's name: a namespace, one slash, a name.
///
/// # Examples
///
/// ```
/// use vmcp_registry::identifiers::is_server_name;
///
/// assert!(is_server_name("io.github.user/weather"));
/// assert!(!is_server_name("weather") && !is_server_name("a/b/c") && !is_server_name("a/ b"));
/// ```
pub fn is_server_name(name: &str) -> bool {
    let Some((namespace, server)) = name.split_once('/') else { return false };
    (3..=MAX_SERVER_NAME).contains(&name.len())
        && is_made_of(namespace, |c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'))
        && is_made_of(server, |c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
}

/// Returns true for a package's name at npm, with or without a scope. Capitals, which npm allows for names of
/// before 2017 alone, are refused: they make lookalikes.
pub fn is_npm_name(name: &str) -> bool {
    let is_part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-._~".contains(c))
    };
    name.len() <= MAX_NPM_NAME
        && match name.strip_prefix('@') {
            None => is_part(name),
            Some(scoped) => {
                scoped.split_once('/').is_some_and(|(scope, name)| is_part(scope) && is_part(name))
            }
        }
}

/// Returns true for an exact version of npm: `MAJOR.MINOR.PATCH` with optional parts behind `-` and `+`.
/// Ranges, tags and addresses are refused.
pub fn is_npm_version(version: &str) -> bool {
    let (release, build) = version.split_once('+').unwrap_or((version, "0"));
    let (core, pre) = release.split_once('-').unwrap_or((release, "0"));
    let is_number = |part: &str| is_made_of(part, |c| c.is_ascii_digit());
    let is_dotted =
        |text: &str| text.split('.').all(|part| is_made_of(part, |c| c.is_ascii_alphanumeric() || c == '-'));
    version.len() <= MAX_VERSION
        && core.split('.').count() == 3
        && core.split('.').all(is_number)
        && is_dotted(pre)
        && is_dotted(build)
}

/// Returns true for a package's name at PyPI (PEP 508).
pub fn is_pypi_name(name: &str) -> bool {
    let is_edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    name.len() <= MAX_PYPI_NAME
        && is_edge(name.chars().next())
        && is_edge(name.chars().next_back())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
}

/// Returns true for an exact version of PyPI (PEP 440): it begins with a digit and has no `*`, no comparison
/// and no address.
pub fn is_pypi_version(version: &str) -> bool {
    version.len() <= MAX_VERSION
        && version.starts_with(|c: char| c.is_ascii_digit())
        && version.chars().all(|c| c.is_ascii_alphanumeric() || ".!+-_".contains(c))
        // Ranges such as `1.x`.
        && !version.split('.').any(|part| part.eq_ignore_ascii_case("x"))
}

/// The name of an image with its tag and its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageReference {
    /// Host and repository, such as `docker.io/example/weather`.
    pub repository: String,
    /// Tag.
    pub tag: Option<String>,
    /// Digest, `sha256:` and 64 hexadecimal digits.
    pub digest: Option<String>,
}

impl ImageReference {
    /// Parses the name of an image; `None` for any other text.
    ///
    /// # Examples
    ///
    /// ```
    /// use vmcp_registry::identifiers::ImageReference;
    ///
    /// let image = ImageReference::parse("ghcr.io/example/weather:1.2.0").unwrap();
    /// assert_eq!((image.repository.as_str(), image.tag.as_deref()), ("ghcr.io/example/weather", Some("1.2.0")));
    /// assert!(ImageReference::parse("--privileged").is_none());
    /// ```
    pub fn parse(name: &str) -> Option<ImageReference> {
        let (named, digest) = match name.split_once('@') {
            None => (name, None),
            Some((named, digest)) => (named, Some(digest)),
        };
        // A colon before the last slash belongs to the port of the host.
        let (repository, tag) = match named.rsplit_once(':') {
            Some((repository, tag)) if !tag.contains('/') => (repository, Some(tag)),
            _ => (named, None),
        };
        let is_legal = is_repository(repository)
            && tag.is_none_or(is_tag)
            && digest.is_none_or(|digest| digest.strip_prefix("sha256:").is_some_and(is_sha256));
        is_legal.then(|| ImageReference {
            repository: repository.to_owned(),
            tag: tag.map(str::to_owned),
            digest: digest.map(str::to_owned),
        })
    }

    /// True if the name has a host: a first part with a dot or a port, or `localhost`.
    pub fn has_host(&self) -> bool {
        let Some((host, _)) = self.repository.split_once('/') else { return false };
        host.contains(['.', ':']) || host == "localhost"
    }

    /// True if a digest or a tag other than `latest` fixes the image.
    pub fn is_pinned(&self) -> bool {
        self.digest.is_some() || self.tag.as_deref().is_some_and(|tag| tag != "latest")
    }

    /// Returns the whole name.
    pub fn words(&self) -> String {
        let mut words = self.repository.clone();
        if let Some(tag) = &self.tag {
            words.extend([":", tag]);
        }
        if let Some(digest) = &self.digest {
            words.extend(["@", digest]);
        }
        words
    }
}

/// Returns true for 64 lower-case hexadecimal digits.
pub fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.chars().all(|c| c.is_ascii_digit() || matches!(c, 'a'..='f'))
}

fn is_tag(tag: &str) -> bool {
    tag.len() <= MAX_TAG
        && tag.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && tag.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
}

fn is_repository(repository: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_part = |part: &str| {
        part.starts_with(edge) && part.ends_with(edge) && part.chars().all(|c| edge(c) || "._-".contains(c))
    };
    let mut parts = repository.split('/');
    let first = parts.next().unwrap_or_default();
    let host = match first.split_once(':') {
        Some((host, port)) => {
            is_part(host) && is_made_of(port, |c| c.is_ascii_digit()) && repository.contains('/')
        }
        None => is_part(first),
    };
    repository.len() <= MAX_IMAGE_PATH && host && parts.all(is_part)
}

fn is_made_of(text: &str, legal: impl Fn(char) -> bool) -> bool {
    !text.is_empty() && text.chars().all(legal)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_are_flags_paths_addresses_or_lookalikes_are_refused() {
        let hostile = [
            "",
            "-g",
            "--registry=http://evil",
            "../evil",
            "/etc/passwd",
            "./x",
            "git+https://evil/x.git",
            "https://evil/x.tgz",
            "file:x",
            "a b",
            "a;b",
            "a|b",
            "a`b`",
            "$(x)",
            "a\nb",
            "npm:evil",
            "evil@1",
            "@/x",
            "@x",
            "@x/",
            "@x/y/z",
            "@a/-b",
            ".hidden",
            "fіlesystem",
            "user/repo",
        ];
        for name in hostile {
            assert!(!is_npm_name(name), "npm {name}");
            assert!(!is_pypi_name(name), "pypi {name}");
        }
        assert!(is_npm_name("@modelcontextprotocol/server-filesystem") && is_npm_name("mcp-server"));
        assert!(!is_npm_name("Mcp-Server"), "a lookalike");
        assert!(is_pypi_name("mcp-server-time") && is_pypi_name("Zope.Interface"));
        for image in ["--privileged", "-v", "a b/c", "evil/x;sh", "EVIL/x", "a//b", "x@sha256:1", "x:a:b", ""]
        {
            assert!(ImageReference::parse(image).is_none(), "{image}");
        }
    }

    #[test]
    fn only_exact_versions_pin() {
        for version in ["1.2.3", "1.2.3-beta.1", "1.2.3+build-7"] {
            assert!(is_npm_version(version), "{version}");
        }
        for version in
            ["latest", "1", "^1.2.3", "~1.2.3", ">=1", "1.x.0", "1.2.3 || 2", "1.2.3/..", "1..2", "1.2.3-"]
        {
            assert!(!is_npm_version(version), "{version}");
        }
        for version in ["1.2", "2024.1.0rc1", "1!2.0+local.1", "0.1.0.post1"] {
            assert!(is_pypi_version(version), "{version}");
        }
        for version in ["latest", "1.*", ">=1", "1.x", "1 2", "==1", "1@evil", "1/2"] {
            assert!(!is_pypi_version(version), "{version}");
        }
    }

    #[test]
    fn images_are_taken_apart_and_put_together() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        for (name, pinned, host) in [
            ("mcp/time".to_owned(), false, false),
            ("mcp/time:latest".to_owned(), false, false),
            ("mcp/time:1".to_owned(), true, false),
            (format!("localhost:5000/a/b@{digest}"), true, true),
            (format!("ghcr.io/a/b:latest@{digest}"), true, true),
        ] {
            let image = ImageReference::parse(&name).unwrap();
            assert_eq!((image.words(), image.is_pinned(), image.has_host()), (name, pinned, host));
        }
    }

    proptest! {
        #[test]
        fn a_legal_name_is_one_plain_word(name in "[ -~]{0,24}") {
            if is_npm_name(&name) || is_pypi_name(&name) || ImageReference::parse(&name).is_some() {
                prop_assert!(!name.starts_with('-') && !name.contains([' ', ';', '$', '&', '|', '"', '\'']));
            }
        }
    }
}
