//! Sources of connections that an exposure admits: address ranges of a load balancer, and peers of a
//! NetworkPolicy. An empty list admits all.

use std::net::IpAddr;

use k8s_openapi::api::networking::v1::NetworkPolicyPeer;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// A source of connections.
pub(crate) trait Source: Clone + PartialEq {
    /// Returns true if every connection from `other` is known to be one from this source.
    fn covers(&self, other: &Self) -> bool;
}

impl Source for String {
    fn covers(&self, other: &Self) -> bool {
        covers_range(self, other)
    }
}

impl Source for NetworkPolicyPeer {
    fn covers(&self, other: &Self) -> bool {
        if self == other {
            return true;
        }
        match (&self.ip_block, &other.ip_block) {
            (Some(outer), Some(inner)) => {
                let mut holes = outer.except.iter().flatten();
                let is_hole = |hole: &String| {
                    inner.except.iter().flatten().any(|excepted| covers_range(excepted, hole))
                };
                covers_range(&outer.cidr, &inner.cidr) && holes.all(is_hole)
            }
            (None, None) => {
                let namespaces = match (&self.namespace_selector, &other.namespace_selector) {
                    (None, None) => true,
                    (Some(outer), Some(inner)) => covers_selector(outer, inner),
                    _ => false,
                };
                let pods = match (&self.pod_selector, &other.pod_selector) {
                    (None, _) => true,
                    (Some(outer), Some(inner)) => covers_selector(outer, inner),
                    (Some(_), None) => false,
                };
                namespaces && pods
            }
            _ => false,
        }
    }
}

/// Returns true if `inner` asks for everything that `outer` asks for, so that it selects no more.
fn covers_selector(outer: &LabelSelector, inner: &LabelSelector) -> bool {
    let has_label = |(key, value): (&String, &String)| {
        inner.match_labels.as_ref().is_some_and(|labels| labels.get(key) == Some(value))
    };
    let is_asked = |outer: &LabelSelectorRequirement| {
        inner.match_expressions.iter().flatten().any(|inner| covers_requirement(outer, inner))
    };
    outer.match_labels.iter().flatten().all(has_label)
        && outer.match_expressions.iter().flatten().all(is_asked)
}

/// Returns true for the same requirement, and for a requirement that admits fewer values of its label.
fn covers_requirement(outer: &LabelSelectorRequirement, inner: &LabelSelectorRequirement) -> bool {
    let contains = |list: &LabelSelectorRequirement, part: &LabelSelectorRequirement| {
        let mut parts = part.values.iter().flatten();
        parts.all(|value| list.values.iter().flatten().any(|known| known == value))
    };
    outer.key == inner.key
        && match (outer.operator.as_str(), inner.operator.as_str()) {
            ("In", "In") => contains(outer, inner),
            ("NotIn", "NotIn") => contains(inner, outer),
            (outer, inner) => outer == inner,
        }
}

/// Returns true if a range of addresses in CIDR contains the other. Another text contains itself.
fn covers_range(outer: &str, inner: &str) -> bool {
    let (Some((family, start, length)), Some((other_family, address, prefix))) = (range(outer), range(inner))
    else {
        return outer == inner;
    };
    // Of a shift by all bits, nothing is left to differ.
    let differs = (start ^ address).checked_shr(128 - length).unwrap_or_default() != 0;
    family == other_family && length <= prefix && !differs
}

/// Returns the bits of addresses of the family, the first address at the left of 128 bits, and the length of
/// the prefix.
fn range(cidr: &str) -> Option<(u32, u128, u32)> {
    let (address, prefix) = cidr.trim().split_once('/')?;
    let (family, bits) = match address.parse::<IpAddr>().ok()? {
        IpAddr::V4(address) => (32, u128::from(u32::from(address)) << 96),
        IpAddr::V6(address) => (128, u128::from(address)),
    };
    let prefix = prefix.parse::<u32>().ok().filter(|prefix| *prefix <= family)?;
    Some((family, bits, prefix))
}

/// Keeps the sources that are admitted already; returns true if some are left out.
///
/// Two lists without a common source are replaced at once while a guard is dropped: the new sources then
/// reach the server while it still asks for more. Otherwise the stored list stays.
pub(crate) fn narrow<T: Source>(wanted: &mut Vec<T>, current: &[T], drops_a_guard: bool) -> bool {
    if is_within(wanted, current) {
        return false;
    }
    let is_in = |source: &T, sources: &[T]| sources.iter().any(|outer| outer.covers(source));
    let mut common: Vec<T> = wanted.iter().filter(|source| is_in(source, current)).cloned().collect();
    let kept: Vec<T> = current
        .iter()
        .filter(|source| is_in(source, wanted.as_slice()) && !is_in(source, common.as_slice()))
        .cloned()
        .collect();
    common.extend(kept);
    if common.is_empty() && drops_a_guard && !wanted.is_empty() {
        return false;
    }
    *wanted = if common.is_empty() { current.to_vec() } else { common };
    true
}

/// Returns true if a list of sources admits only sources that the other admits.
pub(crate) fn is_within<T: Source>(inner: &[T], outer: &[T]) -> bool {
    let covered = |source: &T| outer.iter().any(|other| other.covers(source));
    outer.is_empty() || (!inner.is_empty() && inner.iter().all(covered))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_contains_its_parts() {
        for (outer, inner, expected) in [
            ("10.0.0.0/8", "10.1.0.0/16", true),
            ("10.1.0.0/16", "10.0.0.0/8", false),
            ("10.0.0.0/8", "11.0.0.0/16", false),
            ("0.0.0.0/0", "203.0.113.7/32", true),
            ("203.0.113.7/32", "203.0.113.7/32", true),
            ("::/0", "10.0.0.0/8", false),
            ("::/0", "2001:db8::/32", true),
            ("2001:db8::/32", "2001:db8:1::/48", true),
            ("2001:db8::/32", "2001:db9::/48", false),
            ("a", "a", true),
            ("a", "10.0.0.0/8", false),
            ("10.0.0.0/40", "10.0.0.0/8", false),
        ] {
            assert_eq!(covers_range(outer, inner), expected, "{outer} {inner}");
        }
    }

    #[test]
    fn a_peer_covers_those_that_say_more() {
        let peer = |text: &str| serde_saphyr::from_str::<NetworkPolicyPeer>(text).unwrap();
        let all = "{namespaceSelector: {}}";
        let team = "{namespaceSelector: {matchLabels: {team: a}}}";
        let pods = "{namespaceSelector: {matchLabels: {team: a}}, podSelector: {matchLabels: {app: b}}}";
        let own = "{podSelector: {matchLabels: {app: b}}}";
        let of = |operator: &str, values: &str| {
            let requirement = format!("{{key: team, operator: {operator}, values: [{values}]}}");
            format!("{{namespaceSelector: {{matchExpressions: [{requirement}]}}}}")
        };
        for (operator, outer, inner, expected) in [
            ("In", "a, b", "b", true),
            ("In", "a, b", "b, a", true),
            ("In", "b", "a, b", false),
            ("NotIn", "b", "a, b", true),
            ("NotIn", "a, b", "b", false),
        ] {
            let found = peer(&of(operator, outer)).covers(&peer(&of(operator, inner)));
            assert_eq!(found, expected, "{operator} {outer} {inner}");
        }
        assert!(!peer(&of("In", "a")).covers(&peer(&of("NotIn", "a"))));
        for (outer, inner, expected) in [
            (all, team, true),
            (team, all, false),
            (team, pods, true),
            (pods, team, false),
            (own, pods, false),
            (all, own, false),
            ("{ipBlock: {cidr: 10.0.0.0/8}}", "{ipBlock: {cidr: 10.1.0.0/16}}", true),
            ("{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}", "{ipBlock: {cidr: 10.1.0.0/16}}", false),
            (
                "{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}",
                "{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16, 10.2.0.0/16]}}",
                true,
            ),
            ("{ipBlock: {cidr: 10.0.0.0/8}}", own, false),
        ] {
            assert_eq!(peer(outer).covers(&peer(inner)), expected, "{outer} {inner}");
        }
    }

    #[test]
    fn sources_that_are_admitted_already_stay_and_others_wait() {
        let list = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<String>>();
        for (wanted, current, drops, expected, waits) in [
            ("a", "a b", false, "a", false),
            ("a", "", false, "a", false),
            ("", "a", true, "a", true),
            ("a b", "a", false, "a", true),
            ("b", "a", false, "a", true),
            ("b", "a", true, "b", false),
            ("10.1.0.0/16", "10.0.0.0/8", false, "10.1.0.0/16", false),
            ("10.1.0.0/16 b", "10.0.0.0/8", false, "10.1.0.0/16", true),
            ("10.0.0.0/8", "10.1.0.0/16", false, "10.1.0.0/16", true),
        ] {
            let mut narrowed = list(wanted);
            let found = narrow(&mut narrowed, &list(current), drops);
            assert_eq!((narrowed, found), (list(expected), waits), "{wanted} {current} {drops}");
        }
    }
}
