//! Names of clients and groups in policies, by source of identities: two sources may have a subject of the
//! same name, and neither must be the other's client in a policy.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::IncomingAuth;
use crate::problems::{self, Report};

/// Source of the clients of `apiKeys`, in place of an issuer.
pub const API_KEYS: &str = "apiKeys";
/// Source of the clients of `clientCertificates`, in place of an issuer.
pub const CLIENT_CERTIFICATES: &str = "clientCertificates";

/// Groups of a source that policies see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SourceGroups")]
pub enum RawSourceGroups {
    /// All, by the names that the source gives them.
    All,
    /// None.
    Off,
    /// All, each behind `groupPrefix`.
    Prefix,
    /// The ones of `allowedGroups`.
    AllowList,
}

/// Names of a source, as far as they are configured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceNaming {
    /// Prefix of subjects.
    pub subject_prefix: Option<String>,
    /// Groups.
    pub groups: Option<SourceGroups>,
}

/// Groups of a source that policies see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SourceGroups {
    /// All, by the names that the source gives them.
    All,
    /// None.
    Off,
    /// All, behind a prefix; `None`: the prefix of subjects.
    Prefix(Option<String>),
    /// These only.
    Allowed(BTreeSet<String>),
}

/// The names of all sources.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentitySources {
    /// Issuers, and [`CLIENT_CERTIFICATES`], in the order of the configuration.
    pub sources: Vec<IdentitySource>,
    /// Subjects of API keys, which the operator has chosen: no client of another source has one.
    pub key_subjects: BTreeSet<String>,
}

/// The names of one source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentitySource {
    /// Issuer, or the word for another kind of source.
    pub issuer: String,
    /// Prefix of subjects in policies.
    pub subject_prefix: String,
    /// Groups in policies.
    pub groups: SourceGroups,
}

impl IdentitySource {
    /// Returns the prefix of groups in policies.
    pub fn group_prefix(&self) -> &str {
        match &self.groups {
            SourceGroups::Prefix(Some(prefix)) => prefix,
            SourceGroups::Prefix(None) => &self.subject_prefix,
            SourceGroups::All | SourceGroups::Off | SourceGroups::Allowed(_) => "",
        }
    }
}

/// Validates the keys of one source below `path`: the prefixes of subjects and groups, and which groups
/// count.
pub(super) fn validate(
    [subject_prefix, group_prefix]: [Option<&String>; 2],
    groups: Option<RawSourceGroups>,
    allowed: &[String],
    path: &str,
    report: &mut Report,
) -> SourceNaming {
    let is_prefix = groups == Some(RawSourceGroups::Prefix);
    if group_prefix.is_some() && !is_prefix {
        let path = problems::key(path, "groupPrefix");
        report.problem(&path, "not used without `groups: prefix`", "add that, or remove the prefix");
    }
    if !allowed.is_empty() && groups != Some(RawSourceGroups::AllowList) {
        let path = problems::key(path, "allowedGroups");
        report.problem(&path, "not used without `groups: allowList`", "add that, or remove the list");
    }
    let groups = groups.map(|groups| match groups {
        RawSourceGroups::All => SourceGroups::All,
        RawSourceGroups::Off => SourceGroups::Off,
        RawSourceGroups::Prefix => SourceGroups::Prefix(group_prefix.cloned()),
        RawSourceGroups::AllowList => SourceGroups::Allowed(allowed.iter().cloned().collect()),
    });
    SourceNaming { subject_prefix: subject_prefix.cloned(), groups }
}

/// Returns the names of all sources. The first keeps its names bare; others get their issuer as prefix,
/// unless they are configured. Clients of API keys keep the names that the operator wrote.
pub(crate) fn sources(incoming: &IncomingAuth) -> IdentitySources {
    let issuers = incoming.issuers.iter().map(|issuer| (issuer.issuer.as_str(), &issuer.naming));
    let certificates =
        incoming.client_authorities.iter().map(|_| (CLIENT_CERTIFICATES, &incoming.certificate_naming));
    let mut named: Vec<(&str, SourceNaming)> = Vec::new();
    for (issuer, naming) in issuers.chain(certificates) {
        // An issuer may have several blocks, one an audience: its subjects are the same.
        match named.iter_mut().find(|(known, _)| *known == issuer) {
            Some((_, known)) => {
                known.subject_prefix = known.subject_prefix.take().or_else(|| naming.subject_prefix.clone());
                known.groups = known.groups.take().or_else(|| naming.groups.clone());
            }
            None => named.push((issuer, naming.clone())),
        }
    }
    let source = |(position, (issuer, naming)): (usize, (&str, SourceNaming))| IdentitySource {
        issuer: issuer.to_owned(),
        subject_prefix: naming
            .subject_prefix
            .unwrap_or_else(|| if position == 0 { String::new() } else { format!("{issuer}#") }),
        groups: naming.groups.unwrap_or(match position {
            0 => SourceGroups::All,
            _ => SourceGroups::Prefix(None),
        }),
    };
    IdentitySources {
        sources: named.into_iter().enumerate().map(source).collect(),
        key_subjects: incoming.api_keys.iter().map(|key| key.subject.clone()).collect(),
    }
}

/// Warns of policies whose names of clients or groups several sources can claim, and of sources whose names
/// have a prefix that no policy mentions.
pub(crate) fn check(
    sources: &IdentitySources,
    policies: &[String],
    group_type: &str,
    incoming: &IncomingAuth,
    report: &mut Report,
) {
    for key in incoming.api_keys.iter().filter(|key| key.subject == ANONYMOUS) {
        let message = format!("`{}` is the name of clients without credentials", key.subject);
        report.problem("incomingAuth.apiKeys", message, "give the key another subject");
    }
    if sources.sources.len() < 2 {
        return;
    }
    for (kind, of_groups) in [("Client", false), (group_type, true)] {
        let mut by_prefix: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for source in &sources.sources {
            if let Some(prefix) = source.prefix(of_groups) {
                by_prefix.entry(prefix).or_default().push(&source.issuer);
            }
        }
        for (number, text) in policies.iter().enumerate() {
            for (name, several) in claimants(text, kind, &by_prefix) {
                let path = problems::item("incomingAuth.authz.policies", number);
                let message =
                    format!("`{kind}::\"{name}\"` can be claimed by several sources: {}", several.join(", "));
                let remedy =
                    "set `subjectPrefix` and `groups` of all but one, or write `principal in Issuer::\"…\"`";
                report.warn(&path, message, remedy);
            }
            for source in sources.sources.iter().filter(|source| source.is_named_by_default()) {
                let foreign = names(text, kind).any(|name| !name.starts_with(&source.subject_prefix));
                if foreign && text.contains("permit") && !text.contains("Issuer::\"") {
                    let path = problems::item("incomingAuth.authz.policies", number);
                    let message = format!(
                        "permits no client of {}, whose names begin with `{}`",
                        source.issuer, source.subject_prefix
                    );
                    let remedy = "name them so, or choose names by `subjectPrefix` and `groups`";
                    report.warn(&path, message, remedy);
                    break;
                }
            }
        }
    }
}

/// Subject of clients without credentials.
const ANONYMOUS: &str = "anonymous";

impl IdentitySource {
    /// Returns the prefix of subjects, or of groups; `None` if policies see no groups of the source.
    fn prefix(&self, of_groups: bool) -> Option<&str> {
        if of_groups {
            (self.groups != SourceGroups::Off).then(|| self.group_prefix())
        } else {
            Some(&self.subject_prefix)
        }
    }

    fn is_named_by_default(&self) -> bool {
        self.subject_prefix == format!("{}#", self.issuer)
    }
}

/// Yields the names of a kind that a text has, with the sources that can claim each, if they are several.
fn claimants<'a>(
    text: &'a str,
    kind: &str,
    by_prefix: &'a BTreeMap<&str, Vec<&str>>,
) -> impl Iterator<Item = (&'a str, &'a Vec<&'a str>)> {
    let of_one_issuer = text.contains("Issuer::\"");
    let names: BTreeSet<&str> = names(text, kind).filter(|_| !of_one_issuer).collect();
    names.into_iter().filter_map(|name| {
        let longest = by_prefix
            .iter()
            .filter(|(prefix, _)| name.starts_with(**prefix))
            .max_by_key(|(prefix, _)| prefix.len());
        let (_, several) = longest.filter(|(_, several)| several.len() > 1)?;
        Some((name, several))
    })
}

/// Yields the ids of entities of a kind in a text: `kind::"id"`.
fn names<'a>(text: &'a str, kind: &str) -> impl Iterator<Item = &'a str> {
    let start = format!("{kind}::\"");
    let places: Vec<usize> = text.match_indices(&start).map(|(at, found)| at + found.len()).collect();
    places.into_iter().filter_map(|at| text.get(at..)?.split('"').next())
}

#[cfg(test)]
mod tests {
    use crate::{Loaded, load};

    fn with(blocks: &str, policy: &str) -> Loaded {
        let text = format!(
            "incomingAuth:\n  type: oidc\n  oidc: {{ issuer: https://company.example, audience: a }}\n{blocks}\n  authz:\n    policies: ['{policy}']\n"
        );
        load(&text, "vmcp.yaml", &|_| None).unwrap()
    }

    fn warnings(blocks: &str, policy: &str) -> String {
        let warnings = with(blocks, policy).warnings;
        let warnings = warnings.iter().filter(|warning| warning.path.starts_with("incomingAuth"));
        warnings.map(|warning| warning.path.clone() + ": " + &warning.message + "\n").collect()
    }

    const PARTNER: &str = "issuer: https://partner.example, audience: a";

    #[test]
    fn names_of_policies_that_several_sources_can_claim_are_warned_of() {
        let cfo = "permit(principal == Client::\"cfo\", action, resource);";
        let finance = "permit(principal in THVGroup::\"finance\", action, resource);";
        let block = |more: &str| format!("  additionalIssuers: [{{ {PARTNER}{more} }}]");
        let shared = warnings(&block(", subjectPrefix: \"\", groups: all"), cfo);
        assert!(shared.contains("`Client::\"cfo\"` can be claimed by several sources"), "{shared}");
        let shared = warnings(&block(", subjectPrefix: \"\", groups: all"), finance);
        assert!(shared.contains("`THVGroup::\"finance\"` can be claimed"), "{shared}");
        let allowed =
            warnings(&block(", subjectPrefix: \"p:\", groups: allowList, allowedGroups: [finance]"), finance);
        assert!(allowed.contains("can be claimed"), "{allowed}");
        let default = warnings(&block(""), cfo);
        assert!(default.contains("permits no client of https://partner.example"), "{default}");
        for more in [", subjectPrefix: \"partner:\"", ", subjectPrefix: \"partner:\", groups: off"] {
            assert_eq!(warnings(&block(more), cfo), "");
            assert_eq!(warnings(&block(more), finance), "");
        }
        let one = "permit(principal in Issuer::\"https://partner.example\", action, resource) when { principal == Client::\"cfo\" };";
        assert_eq!(warnings(&block(""), one), "");
        assert_eq!(warnings("", cfo), "");
        let keys = "  apiKeys: [{ subject: cfo, key: 0123456789abcdef }]";
        assert_eq!(warnings(keys, cfo), "", "the operator chose the subject of the key");
    }

    #[test]
    fn prefixes_that_are_not_used_and_names_of_anonymous_clients_are_refused() {
        for (more, message) in [
            (", groupPrefix: p", "not used without `groups: prefix`"),
            (", allowedGroups: [a]", "not used without `groups: allowList`"),
            (", claimMapping: { sub: email }", "never mapped"),
            (", requiredClaims: { hd: [] }", "no value is accepted"),
        ] {
            let text = format!("incomingAuth:\n  type: oidc\n  oidc: {{ {PARTNER}{more} }}\n");
            let problems = load(&text, "vmcp.yaml", &|_| None).unwrap_err().to_string();
            assert!(problems.contains(message), "{more}: {problems}");
        }
    }
}
