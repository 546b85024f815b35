//! `server.registry`: the registry API on the client port, by which IDEs find the profiles of this server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::problems::Report;
use crate::values::http_url;

/// Most bytes of a namespace: with a slash and a profile, a name has at most 200.
const MAX_NAMESPACE: usize = 100;

/// The registry that this server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedRegistry {
    /// True if clients without credentials read it.
    pub public: bool,
    /// Namespace of the entries; `None`: the host in reverse order.
    pub namespace: Option<String>,
    /// URL before `/mcp`; `None`: as tokens name it, or as the client reaches it.
    pub url: Option<Url>,
}

/// `GET /v0.1/servers` on the client port: an entry for each profile, in the form of the official MCP
/// registry. IDEs read it as their list of allowed servers.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ServedRegistry")]
pub struct RawServedRegistry {
    /// Serve it.
    pub enabled: bool,
    /// `true`: clients without credentials read names and URLs of all profiles, and no tools. IDEs send none
    /// today. `false`: a client reads the profiles in which its policies leave it anything.
    pub public: bool,
    /// Namespace of the entries, such as `com.example`. Empty: the host in reverse order.
    pub namespace: String,
    /// URL of this server without `/mcp`, such as `https://mcp.example.com`. Empty: the `resource` of
    /// `incomingAuth.oidc`, or as the client reaches it. IDEs compare the URLs of entries with their own.
    pub url: String,
}

impl RawServedRegistry {
    pub(super) fn validate(&self, report: &mut Report) -> Option<ServedRegistry> {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
        if self.namespace.len() > MAX_NAMESPACE || !self.namespace.chars().all(legal) {
            report.problem(
                "server.registry.namespace",
                format!("not a namespace of at most {MAX_NAMESPACE} letters, digits, `.` and `-`"),
                "write your domain in reverse order, such as `com.example`",
            );
        }
        let given = (!self.url.is_empty()).then_some(&self.url);
        let url = given.and_then(|url| http_url::validate(url, "server.registry.url", report));
        if url
            .as_ref()
            .is_some_and(|url| url.query().is_some() || url.path().trim_end_matches('/').ends_with("/mcp"))
        {
            report.problem(
                "server.registry.url",
                "the URL has a query or ends with `/mcp`, which is added to it",
                "write the part before `/mcp`, such as `https://mcp.example.com`",
            );
        }
        self.enabled.then(|| ServedRegistry {
            public: self.public,
            namespace: Some(self.namespace.clone()).filter(|namespace| !namespace.is_empty()),
            url,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::load;

    #[test]
    fn mistakes_are_named_and_nothing_is_served_unless_it_is_asked_for() {
        let loaded = |registry: &str| {
            load(&format!("server: {{ registry: {registry} }}"), "t.yaml", &|_| None)
                .map(|loaded| loaded.config.server.registry)
                .map_err(|problems| problems.to_string())
        };
        assert_eq!(loaded("{ namespace: com.example }"), Ok(None));
        let served = loaded("{ enabled: true, url: 'https://mcp.example.com/' }").unwrap().unwrap();
        assert_eq!((served.namespace, served.public), (None, false));
        for (registry, path) in [
            ("{ namespace: 'com/example' }", "server.registry.namespace"),
            ("{ url: 'https://mcp.example.com/mcp' }", "server.registry.url"),
            ("{ url: 'https://mcp.example.com/?a=b' }", "server.registry.url"),
            ("{ url: mcp.example.com }", "server.registry.url"),
        ] {
            let problems = loaded(registry).unwrap_err();
            assert!(problems.contains(path), "{registry}: {problems}");
        }
    }
}
