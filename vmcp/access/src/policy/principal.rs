//! [`PolicyNames`]: the names of a client and its groups in policies. Two sources of identities may have a
//! subject of the same name; policies tell the two apart.

pub(super) mod groups;

use std::collections::BTreeSet;

use vmcp_config::{IdentitySource, IdentitySources, SourceGroups};

use crate::api_keys;
use crate::identity::Identity;

/// Subject of clients without credentials.
const ANONYMOUS: &str = "anonymous";

/// Names of one client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PolicyNames {
    /// Id of the client.
    pub(super) subject: String,
    /// Ids of its groups.
    pub(super) groups: Vec<String>,
}

/// Returns the names of a client whose source calls its groups `groups`.
pub(super) fn names(sources: &IdentitySources, identity: &Identity, groups: &[String]) -> PolicyNames {
    let Some(known) = identity.as_known() else {
        return PolicyNames { subject: identity.subject().to_owned(), groups: groups.to_vec() };
    };
    let issuer = known.issuer();
    let source = sources.sources.iter().find(|source| source.issuer == issuer);
    let others = || sources.sources.iter().filter(|other| other.issuer != issuer);
    let prefix = source.map_or("", |source| &source.subject_prefix);
    let subject = format!("{prefix}{}", known.subject());
    let is_key = issuer == api_keys::ISSUER;
    // A name that belongs to another source: the issuer in front makes it this one's.
    let is_taken = subject == ANONYMOUS
        || (!is_key && sources.key_subjects.contains(&subject))
        || others().any(|other| belongs(&subject, &other.subject_prefix, prefix));
    let subject = if is_taken { qualified(issuer, known.subject()) } else { subject };
    let name = |group: &String| {
        let prefix = source.map_or("", IdentitySource::group_prefix);
        let name = format!("{prefix}{group}");
        let is_taken = others().any(|other| belongs(&name, other.group_prefix(), prefix));
        if is_taken { qualified(issuer, group) } else { name }
    };
    let groups = match source.map(|source| &source.groups) {
        Some(SourceGroups::Off) => Vec::new(),
        Some(SourceGroups::Allowed(allowed)) => allowed_groups(groups, allowed),
        Some(SourceGroups::All | SourceGroups::Prefix(_)) | None => groups.iter().map(name).collect(),
    };
    PolicyNames { subject, groups }
}

/// True if a name begins with the prefix of another source, which has chosen a prefix of its own.
fn belongs(name: &str, of_other: &str, own: &str) -> bool {
    !of_other.is_empty() && of_other != own && of_other.len() > own.len() && name.starts_with(of_other)
}

fn qualified(issuer: &str, name: &str) -> String {
    format!("{issuer}#{name}")
}

fn allowed_groups(groups: &[String], allowed: &BTreeSet<String>) -> Vec<String> {
    groups.iter().filter(|group| allowed.contains(*group)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    fn source(issuer: &str, prefix: &str, groups: SourceGroups) -> IdentitySource {
        IdentitySource { issuer: issuer.to_owned(), subject_prefix: prefix.to_owned(), groups }
    }

    fn all(sources: &IdentitySources, issuer: &str, subject: &str) -> (String, Vec<String>) {
        let identity = Identity::known(issuer, subject, Map::new(), None);
        let PolicyNames { subject, groups } = names(sources, &identity, &["a".to_owned(), "q:b".to_owned()]);
        (subject, groups)
    }

    #[test]
    fn no_source_can_claim_the_name_of_another() {
        let sources = IdentitySources {
            sources: vec![
                source("https://a", "", SourceGroups::All),
                source("https://b", "https://b#", SourceGroups::Prefix(None)),
                source("https://c", "q:", SourceGroups::Prefix(Some("q:".to_owned()))),
                source("https://d", "q:r:", SourceGroups::Off),
                source("https://e", "e:", SourceGroups::Allowed(["a".to_owned()].into())),
            ],
            key_subjects: ["ci".to_owned()].into(),
        };
        let of = |issuer, subject| all(&sources, issuer, subject);
        let text = |list: [&str; 2]| list.map(str::to_owned).to_vec();
        assert_eq!(of("https://a", "cfo"), ("cfo".to_owned(), text(["a", "https://a#q:b"])));
        assert_eq!(
            of("https://b", "cfo"),
            ("https://b#cfo".to_owned(), text(["https://b#a", "https://b#q:b"]))
        );
        assert_eq!(of("https://c", "cfo"), ("q:cfo".to_owned(), text(["q:a", "q:q:b"])));
        assert_eq!(of("https://d", "cfo"), ("q:r:cfo".to_owned(), Vec::new()));
        assert_eq!(of("https://e", "cfo"), ("e:cfo".to_owned(), vec!["a".to_owned()]));
        for (issuer, subject, expected) in [
            ("https://a", "https://b#cfo", "https://a#https://b#cfo"),
            ("https://a", "q:cfo", "https://a#q:cfo"),
            ("https://c", "r:cfo", "https://c#r:cfo"),
            ("https://a", "anonymous", "https://a#anonymous"),
            ("https://a", "ci", "https://a#ci"),
            ("apiKeys", "ci", "ci"),
        ] {
            assert_eq!(of(issuer, subject).0, expected, "{issuer} {subject}");
        }
        let one = IdentitySources {
            sources: vec![source("https://a", "", SourceGroups::All)],
            ..Default::default()
        };
        assert_eq!(all(&one, "https://a", "q:cfo").0, "q:cfo");
        assert_eq!(all(&one, "https://a", "anonymous").0, "https://a#anonymous");
    }
}
