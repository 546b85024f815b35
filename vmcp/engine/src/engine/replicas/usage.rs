//! Usage over days, summed over replicas.
//!
//! A fan-out in place of the rounds: a year of days and a thousand tools would travel twice a second for a
//! page that a person opens now and then. So the sums lack a replica that does not answer now; the census
//! names it.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use futures::future::{join, join_all};
use vmcp_config::Config;

use super::known::Census;
use super::{LOOKUP_TIMEOUT, Replicas, addresses, client};
use crate::telemetry::tool_metrics::history::HistoryQuery;
use crate::telemetry::tool_metrics::usage::UsageReport;

pub use super::answers::ReplicaUsage;

/// Most tools of each replica that are summed, its most called ones.
const SUMMED_TOOLS: usize = 1000;

/// Usage, summed over replicas.
#[derive(Debug, Clone, PartialEq)]
pub struct TotalUsage {
    /// The sums; `None` if the database of this process cannot be read now.
    pub usage: Option<UsageReport>,
    /// Replicas in the sums, and those without an answer; `None` if none is configured.
    pub census: Option<Census>,
}

impl Replicas {
    /// Returns the usage of this process for a replica that sums; `None` if its database cannot be read now.
    pub(in crate::engine) async fn own_usage(&self, wanted: HistoryQuery) -> Option<ReplicaUsage> {
        let usage = self.tool_metrics.usage(wanted).await?;
        Some(ReplicaUsage { replica: self.id.clone(), usage })
    }

    /// Returns the usage summed over this process and every other replica that answers.
    pub(in crate::engine) async fn total_usage(&self, config: &Config, wanted: HistoryQuery) -> TotalUsage {
        if config.server.peers.is_empty() {
            return TotalUsage { usage: self.tool_metrics.usage(wanted).await, census: None };
        }
        let limit = wanted.limit.unwrap_or(SUMMED_TOOLS);
        let wanted = HistoryQuery { limit: Some(SUMMED_TOOLS.max(limit)), ..wanted };
        let (addresses, unreachable) = addresses(config, LOOKUP_TIMEOUT).await;
        let asked =
            join_all(addresses.iter().copied().map(|address| client::usage(config, address, &wanted)));
        let (own, answers) = join(self.tool_metrics.usage(wanted.clone()), asked).await;
        let (mut usage, census) = self.sum(own, addresses.into_iter().zip(answers), unreachable);
        if let Some(usage) = &mut usage {
            usage.tools.truncate(limit);
        }
        TotalUsage { usage, census: Some(census) }
    }

    /// Adds the answers of other replicas to the usage of this process. Each replica counts once: this
    /// process is among the addresses of its own service, and a replica may have two names.
    fn sum(
        &self,
        mut usage: Option<UsageReport>,
        answers: impl Iterator<Item = (SocketAddr, Result<ReplicaUsage, String>)>,
        mut unreachable: Vec<String>,
    ) -> (Option<UsageReport>, Census) {
        let mut summed = BTreeSet::from([self.id.clone()]);
        for (address, answer) in answers {
            match answer {
                Ok(other) => {
                    if summed.insert(other.replica)
                        && let Some(usage) = &mut usage
                    {
                        usage.add(other.usage);
                    }
                }
                Err(reason) => {
                    tracing::debug!(%address, reason, "another replica gave no usage");
                    unreachable.push(address.to_string());
                }
            }
        }
        (usage, Census { replicas: summed.len(), unreachable })
    }
}
