//! The ServiceMonitor for the Prometheus operator.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vmcp_config::parse_duration;

use crate::fields::cel_rules::rules;
use crate::problem::Problem;

/// Pattern of a duration of Prometheus, such as `1m30s`.
const DURATION: &str = r"^(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?$";

/// A ServiceMonitor for the Prometheus operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "!has(self.interval) || !has(self.scrapeTimeout) || self.interval == '' || duration(self.scrapeTimeout) <= duration(self.interval)",
    "scrapeTimeout is longer than interval, and Prometheus would leave the ServiceMonitor out; shorten it",
)])))]
pub struct ServiceMonitor {
    /// `false`: no ServiceMonitor is made.
    pub enabled: bool,
    /// Interval between scrapes, such as `30s`. Default: that of Prometheus.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), regex(pattern = DURATION))]
    pub interval: Option<String>,
    /// Longest time of a scrape, not more than `interval`. Default: that of Prometheus.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION))]
    pub scrape_timeout: Option<String>,
    /// Labels by which a Prometheus selects the ServiceMonitor. At most 64.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub labels: BTreeMap<String, String>,
    /// Changes labels of the target before a scrape. At most 64.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub relabelings: Vec<RelabelConfig>,
    /// Changes or drops metrics after a scrape. At most 64.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub metric_relabelings: Vec<RelabelConfig>,
    /// `true`: `/metrics` of the pods wants a bearer token. The operator generates it, as `metrics-token` in
    /// the Secret `NAME-vmcp-secrets`, and the ServiceMonitor refers to it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub require_token: bool,
}

impl Default for ServiceMonitor {
    fn default() -> Self {
        Self {
            enabled: true,
            interval: None,
            scrape_timeout: None,
            labels: BTreeMap::new(),
            relabelings: Vec::new(),
            metric_relabelings: Vec::new(),
            require_token: false,
        }
    }
}

impl ServiceMonitor {
    /// Finds a timeout that is longer than the interval.
    pub(super) fn check(&self, problems: &mut Vec<Problem>) {
        let [interval, timeout] = [&self.interval, &self.scrape_timeout]
            .map(|text| text.as_ref().and_then(|text| parse_duration(text)));
        if let (Some(interval), Some(timeout)) = (interval, timeout)
            && timeout > interval
        {
            let message = "longer than `interval`, and Prometheus would leave the ServiceMonitor out";
            problems.push(Problem::new("spec.serviceMonitor.scrapeTimeout", message, "shorten it"));
        }
    }
}

/// A rule that changes labels, as in Prometheus.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct RelabelConfig {
    /// Action of the rule. Default: `replace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<RelabelAction>,
    /// Labels whose values are joined and compared with `regex`. At most 16.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub source_labels: Vec<String>,
    /// Text between the joined values. Default: `;`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub separator: Option<String>,
    /// Regular expression that the joined values are compared with. Default: `(.*)`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub regex: Option<String>,
    /// Label that is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub target_label: Option<String>,
    /// Value that is written, with groups of `regex` as `$1`. Default: `$1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub replacement: Option<String>,
    /// Divisor of the hash of the joined values, for `hashmod`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4_294_967_295_u32))]
    pub modulus: Option<u32>,
}

/// Action of a rule that changes labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RelabelAction {
    /// Writes `replacement` to `targetLabel`.
    Replace,
    /// Drops targets or metrics that do not match.
    Keep,
    /// Drops targets or metrics that match.
    Drop,
    /// Writes the hash of the values, modulo `modulus`.
    HashMod,
    /// Copies labels whose names match, under the name that `replacement` gives.
    LabelMap,
    /// Drops labels whose names match.
    LabelDrop,
    /// Drops labels whose names do not match.
    LabelKeep,
    /// Writes the values in lower case.
    Lowercase,
    /// Writes the values in upper case.
    Uppercase,
    /// Drops targets whose values differ from `targetLabel`.
    KeepEqual,
    /// Drops targets whose values equal `targetLabel`.
    DropEqual,
}
