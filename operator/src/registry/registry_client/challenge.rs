//! The header `WWW-Authenticate` of a registry.

use url::Url;

/// A challenge that can be answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// User name and password go with every request.
    Basic,
    /// A token is fetched from this URL, which has service and scope.
    Bearer(Url),
}

impl Challenge {
    /// Parses one challenge; `None` if it is of another scheme or without a realm.
    pub(super) fn parse(header: &str) -> Option<Self> {
        let (scheme, parameters) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let parameters = parameters_of(parameters);
        let value = |name: &str| parameters.iter().find(|(key, _)| key == name).map(|(_, value)| value);
        let mut realm = Url::parse(value("realm")?).ok()?;
        for name in ["service", "scope"] {
            if let Some(value) = value(name) {
                realm.query_pairs_mut().append_pair(name, value);
            }
        }
        Some(Self::Bearer(realm))
    }
}

/// Splits `name="value",…`; a comma within quotes belongs to the value, as in `scope="repository:x:pull,push"`.
fn parameters_of(mut rest: &str) -> Vec<(String, String)> {
    let mut parameters = Vec::new();
    while let Some((name, after)) = rest.split_once('=') {
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => after.split_once(',').unwrap_or((after, "")),
        };
        let name = name.trim_matches([',', ' ']).to_ascii_lowercase();
        parameters.push((name, value.to_owned()));
        rest = after;
    }
    parameters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn realm_service_and_scope_are_asked_for() {
        let header = r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io", scope="repository:mcp/fetch:pull,push""#;
        let Some(Challenge::Bearer(url)) = Challenge::parse(header) else { panic!("no token") };
        assert_eq!(
            url.as_str(),
            "https://auth.docker.io/token?service=registry.docker.io&scope=repository%3Amcp%2Ffetch%3Apull%2Cpush"
        );
        assert_eq!(Challenge::parse("Basic realm=\"x\""), Some(Challenge::Basic));
        assert_eq!(Challenge::parse("Negotiate"), None);
        assert_eq!(Challenge::parse("Bearer service=x"), None);
    }
}
