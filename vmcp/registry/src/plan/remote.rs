//! A remote becomes an address with headers.

use std::collections::BTreeMap;
use std::net::IpAddr;

use url::{Host, Url};
use vmcp_config::addresses::AddressClass;
use vmcp_config::{is_reserved_header, is_token_char};

use super::fill::Filler;
use super::text::{Part, Text};
use super::{Draft, InstallMethod, PlanError, Target, refused};
use crate::entry::Remote;

pub(super) fn draft(remote: &Remote, mut filler: Filler<'_>) -> Result<Draft, PlanError> {
    let at = &remote.path;
    if !matches!(remote.transport.as_str(), "streamable-http" | "sse") {
        let reason = format!("`{}` is neither streamable-http nor sse", remote.transport);
        return Err(refused(&format!("{at}.type"), &reason));
    }
    let url = filler.text("url", &remote.url)?;
    let mut headers = BTreeMap::new();
    for (index, header) in remote.headers.iter().enumerate() {
        let path = format!("{at}.headers[{index}]");
        let lower = header.name.to_ascii_lowercase();
        if header.name.is_empty() || !header.name.chars().all(is_token_char) {
            return Err(refused(&path, "not the name of a header"));
        }
        if is_reserved_header(&lower) {
            return Err(refused(&path, &format!("`{}` is set by vmcp itself", header.name)));
        }
        if let Some(value) = filler.text(&header.name, &header.input)? {
            headers.insert(header.name.clone(), value);
        }
    }
    let mut notes = Vec::new();
    if let Some(url) = &url {
        check_values(url)?;
        let has_secrets = headers.values().chain([url]).any(Text::may_be_secret);
        notes.extend(check(&url.plain(), has_secrets, &format!("{at}.url"))?);
    }
    // Shows the template: values may be secrets.
    let origin = format!("remote {}", remote.url.value.as_deref().unwrap_or_default());
    Ok(Draft {
        way: InstallMethod::Remote,
        origin,
        target: Target::Remote { url: url.unwrap_or_default(), is_sse: remote.transport == "sse", headers },
        questions: filler.questions,
        missing: filler.missing,
        notes,
        image_at: None,
    })
}

/// Refuses values that would change the shape of a URL. At its beginning, a value may be an address.
fn check_values(url: &Text) -> Result<(), PlanError> {
    for (index, part) in url.0.iter().enumerate() {
        let value = match part {
            Part::Value(value) | Part::Secret { value, .. } => value,
            Part::Reference(_) => {
                let reason = "a reference cannot be checked there; give the value".to_owned();
                return Err(PlanError::Value { label: "url".to_owned(), reason });
            }
            Part::Fixed(_) => continue,
        };
        let is_address = index == 0 && (value.starts_with("https://") || value.starts_with("http://"));
        if !is_address && !value.chars().all(|c| c.is_ascii_alphanumeric() || "-._~".contains(c)) {
            let reason = "a value within the URL has letters, digits, `-`, `.`, `_` and `~` alone".to_owned();
            return Err(PlanError::Value { label: "url".to_owned(), reason });
        }
    }
    Ok(())
}

/// Refuses addresses that a catalog must not name; returns what a person should know of the others.
fn check(text: &str, has_secrets: bool, path: &str) -> Result<Vec<String>, PlanError> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let Some((url, host)) = url.as_ref().and_then(|url| Some((url, url.host()?))) else {
        return Err(refused(path, "not an http:// or https:// URL"));
    };
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return Err(refused(path, "a URL with credentials or a fragment"));
    }
    let class = match host {
        Host::Ipv4(ip) => Some(AddressClass::of(IpAddr::V4(ip))),
        Host::Ipv6(ip) => Some(AddressClass::of(IpAddr::V6(ip))),
        Host::Domain("localhost") => Some(AddressClass::Loopback),
        Host::Domain(_) => None,
    };
    if let Some(class @ (AddressClass::LinkLocal | AddressClass::Reserved)) = class {
        return Err(refused(path, &format!("it leads to {}", class.words())));
    }
    if url.scheme() == "http" && class != Some(AddressClass::Loopback) {
        if has_secrets {
            return Err(refused(path, "its secrets would travel in clear text; https:// is needed"));
        }
        return Ok(vec![
            "the address is http://: everybody on the way reads and changes what it says".to_owned(),
        ]);
    }
    Ok(Vec::new())
}
