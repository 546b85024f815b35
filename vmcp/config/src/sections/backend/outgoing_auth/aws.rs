//! `outgoingAuth.*.awsSts`: requests that are signed for AWS (Signature Version 4), with keys of a role or
//! constant ones.

use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use super::raw_aws::{RawAwsSts, RawRoleMapping};
use super::token_url::check_scheme;
use crate::problems::{self, Report, required};
use crate::values::http_url;
use crate::values::secret::Secret;

/// Shortest and longest life of a session, in seconds: those of AWS.
const SESSION_SECONDS: std::ops::RangeInclusive<u32> = 900..=43_200;

/// Signing for AWS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwsSts {
    /// Region of the backend and of STS.
    pub region: String,
    /// Name of the service in signatures.
    pub service: String,
    /// Source of the keys.
    pub keys: AwsKeys,
}

/// Sources of keys that sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AwsKeys {
    /// Constant keys.
    Constant {
        /// Identifier of the key.
        access_key_id: Secret,
        /// The key.
        secret_access_key: Secret,
        /// Token of a session, for keys that expire.
        session_token: Option<Secret>,
    },
    /// Keys of a role, from STS's AssumeRoleWithWebIdentity.
    Role(Box<AwsRoles>),
}

/// Roles, and the token that proves the right to one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwsRoles {
    /// Endpoint of STS.
    pub endpoint: Url,
    /// File with vmcp's own token, for its own requests; without mappings for those of all clients too.
    pub token_file: Option<PathBuf>,
    /// Claim that is compared with the mappings.
    pub role_claim: String,
    /// Values of that claim and their roles, best first.
    pub mappings: Vec<(String, String)>,
    /// Role of the others; `None`: they are refused.
    pub fallback: Option<String>,
    /// Claim that names the session.
    pub session_name_claim: String,
    /// Upstream provider whose token proves the right to a role; `None`: the client's own, or that of the
    /// first provider.
    pub subject_provider: Option<String>,
    /// Life of the keys.
    pub session_duration: Duration,
}

impl AwsSts {
    /// Returns true if each client has keys of its own.
    pub fn is_per_client(&self) -> bool {
        matches!(&self.keys, AwsKeys::Role(roles) if roles.token_file.is_none() || !roles.mappings.is_empty())
    }
}

/// Returns the settings, or `None` after a problem was reported.
pub(super) fn validate(raw: &RawAwsSts, path: &str, report: &mut Report) -> Option<AwsSts> {
    let region = required(raw.region.as_ref(), path, "region", report)?.clone();
    let is_region = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if region.is_empty() || !region.chars().all(is_region) {
        let at = problems::key(path, "region");
        report.problem(&at, "not a region", "write one such as `us-east-1`");
        return None;
    }
    let keys = if raw.access_key_id.is_some() || raw.secret_access_key.is_some() {
        constant(raw, path, report)?
    } else {
        AwsKeys::Role(Box::new(roles(raw, &region, path, report)?))
    };
    let service = raw.service.clone().unwrap_or_else(|| "aws-mcp".to_owned());
    Some(AwsSts { region, service, keys })
}

fn constant(raw: &RawAwsSts, path: &str, report: &mut Report) -> Option<AwsKeys> {
    if raw.fallback_role_arn.is_some()
        || !raw.role_mappings.is_empty()
        || raw.web_identity_token_file.is_some()
    {
        report.problem(
            &problems::key(path, "accessKeyId"),
            "constant keys have no roles",
            "remove the keys, or the roles and `webIdentityTokenFile`",
        );
    }
    Some(AwsKeys::Constant {
        access_key_id: required(raw.access_key_id.as_ref(), path, "accessKeyId", report)?.clone(),
        secret_access_key: required(raw.secret_access_key.as_ref(), path, "secretAccessKey", report)?.clone(),
        session_token: raw.session_token.clone(),
    })
}

fn roles(raw: &RawAwsSts, region: &str, path: &str, report: &mut Report) -> Option<AwsRoles> {
    let by_claim = !raw.role_mappings.is_empty();
    let at = problems::key(path, "fallbackRoleArn");
    match &raw.fallback_role_arn {
        None if !by_claim => {
            report.problem(&at, "missing", "give `fallbackRoleArn`, `roleMappings` or `accessKeyId`");
            return None;
        }
        None if raw.web_identity_token_file.is_some() => {
            report.problem(&at, "missing", "name the role of vmcp itself, or remove `webIdentityTokenFile`");
        }
        _ => {}
    }
    if let Some(arn) = &raw.fallback_role_arn {
        check_arn(arn, &problems::key(path, "fallbackRoleArn"), report);
    }
    let seconds = raw.session_duration.unwrap_or(3600);
    if !SESSION_SECONDS.contains(&seconds) {
        let at = problems::key(path, "sessionDuration");
        report.problem(&at, "out of range", "900 to 43200 seconds");
    }
    let at = problems::key(path, "stsEndpoint");
    let endpoint = match &raw.sts_endpoint {
        Some(written) => http_url::validate(written, &at, report)?,
        None => http_url::validate(&format!("https://sts.{region}.{}", domain(region)), &at, report)?,
    };
    check_scheme(&endpoint, &at, false, report);
    Some(AwsRoles {
        endpoint,
        token_file: raw.web_identity_token_file.clone(),
        role_claim: raw.role_claim.clone().unwrap_or_else(|| "groups".to_owned()),
        mappings: mappings(&raw.role_mappings, &problems::key(path, "roleMappings"), report),
        fallback: raw.fallback_role_arn.clone(),
        session_name_claim: raw.session_name_claim.clone().unwrap_or_else(|| "sub".to_owned()),
        session_duration: Duration::from_secs(seconds.into()),
        subject_provider: raw.subject_provider_name.clone(),
    })
}

/// Returns the mappings by priority; those without one come last, in the order of the file.
fn mappings(raw: &[RawRoleMapping], path: &str, report: &mut Report) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (index, mapping) in raw.iter().enumerate() {
        let at = problems::item(path, index);
        let claim = required(mapping.claim.as_ref(), &at, "claim", report);
        let arn = required(mapping.role_arn.as_ref(), &at, "roleArn", report);
        let (Some(claim), Some(arn)) = (claim, arn) else { continue };
        check_arn(arn, &problems::key(&at, "roleArn"), report);
        found.push((mapping.priority.unwrap_or(u32::MAX), (claim.clone(), arn.clone())));
    }
    found.sort_by_key(|(priority, _)| *priority);
    found.into_iter().map(|(_, mapping)| mapping).collect()
}

fn check_arn(arn: &str, path: &str, report: &mut Report) {
    let is_role = arn.starts_with("arn:aws") && arn.contains(":iam::") && arn.contains(":role/");
    if !is_role {
        report.problem(path, "not the ARN of a role", "write `arn:aws:iam::ACCOUNT:role/NAME`");
    }
}

/// Domain of the partition that a region belongs to.
fn domain(region: &str) -> &'static str {
    if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" }
}
