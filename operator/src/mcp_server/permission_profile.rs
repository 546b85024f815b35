//! `spec.permissionProfile`: the outgoing connections that an MCPServer may make, from a profile as ToolHive
//! writes it. Pure, but for the read of the ConfigMap.
//!
//! A NetworkPolicy knows ports and addresses and no host names. A profile that names hosts therefore opens
//! its ports to every host, and the condition `PermissionProfileEnforced` is `False` and names them.

use std::net::IpAddr;

use k8s_openapi::ByteString;
use kube::ResourceExt as _;
use serde::Deserialize;
use vmcp_crds::mcp_server::{PermissionProfile, PermissionProfileType};
use vmcp_crds::{MCPServer, Problem};

use crate::runtime::{CallError, Conditions, Context};

/// Path of the field.
const PATH: &str = "spec.permissionProfile";
/// Type of the condition.
const CONDITION: &str = "PermissionProfileEnforced";

/// The text of the profile that a server refers to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum ProfileText {
    /// The server refers to no ConfigMap.
    #[default]
    NotNeeded,
    /// The ConfigMap, or the key in it, does not exist.
    Missing,
    /// The value of the key.
    Found(String),
}

/// The connections that a profile allows, and the parts of it that a NetworkPolicy cannot say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Permissions {
    /// The outgoing connections that are allowed.
    pub egress: Egress,
    /// Hosts that the profile allows, by names.
    hosts: Vec<String>,
    /// Parts of the profile that are not followed, in its own words.
    ignored: Vec<&'static str>,
}

/// Outgoing connections that are allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Egress {
    /// All of them.
    #[default]
    Open,
    /// None, not even to the DNS.
    Closed,
    /// Connections to these ports (empty: all) at these addresses (empty: all), and to the DNS.
    To { ports: Vec<u16>, blocks: Vec<String> },
}

/// A profile as ToolHive writes it, in JSON.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Profile {
    read: Vec<serde_json::Value>,
    write: Vec<serde_json::Value>,
    privileged: bool,
    network: Option<Network>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Network {
    inbound: Option<serde_json::Value>,
    mode: Option<String>,
    outbound: Option<Outbound>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Outbound {
    insecure_allow_all: bool,
    allow_host: Vec<String>,
    allow_port: Vec<u16>,
}

/// Returns the ConfigMap that a server's profile is in.
pub(super) fn config_map_of(server: &MCPServer) -> Option<&str> {
    let profile = server.spec.permission_profile.as_ref()?;
    (profile.source == PermissionProfileType::Configmap).then_some(profile.name.as_str())
}

/// Reads the text of the profile.
pub(super) async fn read(context: &Context, server: &MCPServer) -> Result<ProfileText, CallError> {
    let Some(map) = config_map_of(server) else { return Ok(ProfileText::NotNeeded) };
    let data = context.config_map(&server.namespace().unwrap_or_default(), map).await?;
    let key = server.spec.permission_profile.as_ref().and_then(|profile| profile.key.as_deref());
    let text = data.as_ref().and_then(|data| data.get(key?));
    Ok(match text {
        Some(ByteString(text)) => ProfileText::Found(String::from_utf8_lossy(text).into_owned()),
        None => ProfileText::Missing,
    })
}

/// Returns the connections that the profile of a server allows; without a profile, all.
pub(super) fn permissions(
    profile: Option<&PermissionProfile>,
    text: &ProfileText,
) -> Result<Permissions, Problem> {
    let Some(PermissionProfile { source, name, key }) = profile else { return Ok(Permissions::default()) };
    match (source, text) {
        (PermissionProfileType::Builtin, _) => match name.as_str() {
            "network" => Ok(Permissions::default()),
            "none" => Ok(Permissions { egress: Egress::Closed, ..Permissions::default() }),
            _ => {
                let message = format!("`{name}` is no builtin profile");
                let remedy = "name `none` or `network`, or set `type: configmap`";
                Err(Problem::new(PATH, message, remedy))
            }
        },
        (PermissionProfileType::Configmap, ProfileText::Found(text)) => {
            let profile: Profile = serde_json::from_str(text).map_err(|error| {
                let message = format!("the profile in the ConfigMap {name} cannot be read: {error}");
                Problem::new(PATH, message, "write JSON, as ToolHive documents it")
            })?;
            Ok(of_profile(&profile))
        }
        (PermissionProfileType::Configmap, ProfileText::NotNeeded | ProfileText::Missing) => {
            let key = key.as_deref().unwrap_or_default();
            let message = format!("there is no ConfigMap {name} with the key `{key}`");
            Err(Problem::new(PATH, message, "create it, or correct the reference"))
        }
    }
}

fn of_profile(profile: &Profile) -> Permissions {
    let network = profile.network.as_ref();
    let ignored = [
        ("read", !profile.read.is_empty()),
        ("write", !profile.write.is_empty()),
        ("privileged", profile.privileged),
        ("network.inbound", network.is_some_and(|network| network.inbound.is_some())),
        ("network.mode", network.is_some_and(|network| network.mode.is_some())),
    ];
    let ignored = ignored.into_iter().filter_map(|(part, given)| given.then_some(part)).collect();
    let closed = Outbound::default();
    let outbound = network.and_then(|network| network.outbound.as_ref()).unwrap_or(&closed);
    let (mut blocks, mut hosts) = (Vec::new(), Vec::new());
    for host in &outbound.allow_host {
        match block(host) {
            Some(block) => blocks.push(block),
            None => hosts.push(host.clone()),
        }
    }
    if outbound.insecure_allow_all {
        return Permissions { egress: Egress::Open, hosts: Vec::new(), ignored };
    }
    let egress = match (outbound.allow_host.as_slice(), outbound.allow_port.as_slice()) {
        ([], []) => Egress::Closed,
        (_, ports) => {
            // Any host, where one of them has a name.
            let blocks = if hosts.is_empty() { blocks } else { Vec::new() };
            Egress::To { ports: ports.to_vec(), blocks }
        }
    };
    Permissions { egress, hosts, ignored }
}

/// Returns the block of an address or a CIDR; `None` for the name of a host.
fn block(host: &str) -> Option<String> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Some(format!("{address}/{}", if address.is_ipv4() { 32 } else { 128 }));
    }
    let (address, prefix) = host.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let prefix: u8 = prefix.parse().ok()?;
    (prefix <= if address.is_ipv4() { 32 } else { 128 }).then(|| format!("{address}/{prefix}"))
}

/// Sets the condition of a server that has a profile: what is allowed, and what of the profile is not
/// followed.
pub(super) fn set_condition(
    conditions: &mut Conditions,
    profile: Option<&PermissionProfile>,
    text: &ProfileText,
) {
    if profile.is_none() {
        return;
    }
    let Permissions { egress, hosts, ignored } = match permissions(profile, text) {
        Ok(permissions) => permissions,
        Err(problem) => return conditions.set(CONDITION, false, "ProfileUnusable", problem.to_string()),
    };
    let mut said = vec![match &egress {
        Egress::Open => "every outgoing connection is allowed".to_owned(),
        Egress::Closed => "no outgoing connection is allowed, not even to the DNS".to_owned(),
        Egress::To { ports, blocks } => {
            let listed = |items: Vec<String>, all: &str| {
                if items.is_empty() { all.to_owned() } else { items.join(", ") }
            };
            let ports = listed(ports.iter().map(ToString::to_string).collect(), "every port");
            let blocks = listed(blocks.clone(), "any address");
            format!("outgoing connections are allowed to {ports} at {blocks}, and to the DNS")
        }
    }];
    if !hosts.is_empty() {
        said.push(format!(
            "a NetworkPolicy knows no names, so that {} (allow_host) are open as every other host is; limit them by the \
             policies of your network plugin, or write addresses",
            hosts.join(", ")
        ));
    }
    if !ignored.is_empty() {
        said.push(format!("not followed: {}; see podTemplateSpec and networkPolicy", ignored.join(", ")));
    }
    let reason = match (hosts.is_empty(), ignored.is_empty()) {
        (false, _) => "HostNamesNotEnforced",
        (true, false) => "PartlyFollowed",
        (true, true) => "NetworkPolicyApplied",
    };
    conditions.set(CONDITION, hosts.is_empty() && ignored.is_empty(), reason, said.join("; "));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn profile(value: serde_json::Value) -> PermissionProfile {
        serde_json::from_value(value).unwrap()
    }

    fn permissions_of(text: &str) -> Permissions {
        let profile = profile(json!({ "type": "configmap", "name": "p", "key": "k" }));
        permissions(Some(&profile), &ProfileText::Found(text.to_owned())).unwrap()
    }

    fn condition(text: &str) -> (String, String, String) {
        let profile = profile(json!({ "type": "configmap", "name": "p", "key": "k" }));
        let mut conditions = Conditions::new(&[], 1);
        set_condition(&mut conditions, Some(&profile), &ProfileText::Found(text.to_owned()));
        let condition = conditions.finish().pop().unwrap();
        (condition.status, condition.reason, condition.message)
    }

    #[test]
    fn builtin_profiles_are_all_or_nothing() {
        let egress = |name: &str| {
            let profile = profile(json!({ "type": "builtin", "name": name }));
            permissions(Some(&profile), &ProfileText::NotNeeded).map(|permissions| permissions.egress)
        };
        assert_eq!(egress("none"), Ok(Egress::Closed));
        assert_eq!(egress("network"), Ok(Egress::Open));
        let refused = egress("nobody").unwrap_err().to_string();
        assert!(
            refused.starts_with("spec.permissionProfile: `nobody` is no builtin profile; name `none`"),
            "{refused}"
        );
        assert_eq!(permissions(None, &ProfileText::NotNeeded), Ok(Permissions::default()));
    }

    #[test]
    fn a_profile_allows_what_it_lists_and_nothing_else() {
        let to = |ports: &[u16], blocks: &[&str]| Egress::To {
            ports: ports.to_vec(),
            blocks: blocks.iter().map(|block| (*block).to_owned()).collect(),
        };
        for (outbound, egress) in [
            ("{}", Egress::Closed),
            (r#"{"network": {}}"#, Egress::Closed),
            (r#"{"network": {"outbound": {"insecure_allow_all": true, "allow_port": [1]}}}"#, Egress::Open),
            (r#"{"network": {"outbound": {"allow_port": [443, 8443]}}}"#, to(&[443, 8443], &[])),
            (
                r#"{"network": {"outbound": {"allow_host": ["10.1.2.3", "fd00::/8"], "allow_port": [443]}}}"#,
                to(&[443], &["10.1.2.3/32", "fd00::/8"]),
            ),
            (r#"{"network": {"outbound": {"allow_host": ["10.1.2.3", ".example.com"]}}}"#, to(&[], &[])),
        ] {
            assert_eq!(permissions_of(outbound).egress, egress, "{outbound}");
        }
    }

    #[test]
    fn what_is_not_enforced_is_said() {
        let (status, reason, message) = condition(r#"{"network": {"outbound": {"allow_port": [443]}}}"#);
        assert_eq!((status.as_str(), reason.as_str()), ("True", "NetworkPolicyApplied"));
        assert_eq!(message, "outgoing connections are allowed to 443 at any address, and to the DNS");

        let hosts = r#"{"read": ["/etc"], "network": {"outbound": {"allow_host": ["a.example"], "allow_port": [443]}}}"#;
        let (status, reason, message) = condition(hosts);
        assert_eq!((status.as_str(), reason.as_str()), ("False", "HostNamesNotEnforced"));
        assert!(message.contains("a.example (allow_host) are open as every other host is"), "{message}");
        assert!(message.ends_with("not followed: read; see podTemplateSpec and networkPolicy"), "{message}");
    }

    #[test]
    fn a_profile_that_cannot_be_read_is_a_problem_and_opens_nothing() {
        let profile = profile(json!({ "type": "configmap", "name": "p", "key": "k" }));
        for (text, said) in [
            (ProfileText::Missing, "there is no ConfigMap p with the key `k`; create it"),
            (ProfileText::Found("read: []".to_owned()), "the profile in the ConfigMap p cannot be read"),
        ] {
            let problem = permissions(Some(&profile), &text).unwrap_err().to_string();
            assert!(problem.contains(said), "{problem}");
        }
    }
}
