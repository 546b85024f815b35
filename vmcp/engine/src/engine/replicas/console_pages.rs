//! Answers of other replicas for pages of the console, such as their latest calls.
//!
//! A fan-out, as for usage over days: a person asks now and then, and nothing of an answer is kept. A replica
//! that does not answer costs its time limit once, and the census names it.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use futures::future::join_all;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use vmcp_config::Config;

use super::known::Census;
use super::{Replicas, addresses, client};

/// The answer of one replica, as it travels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OfReplica<T> {
    /// Id of the replica, as lasting as its database.
    pub replica: String,
    /// Its answer.
    pub answer: T,
}

/// The answer of another replica.
#[derive(Debug, Clone, PartialEq)]
pub struct OtherReplica<T> {
    /// Id of the replica.
    pub replica: String,
    /// Address at which it answered.
    pub address: SocketAddr,
    /// Its answer.
    pub answer: T,
}

/// The answers of all other replicas.
#[derive(Debug, Clone, PartialEq)]
pub struct OtherReplicas<T> {
    /// One answer of each replica.
    pub answers: Vec<OtherReplica<T>>,
    /// Replicas that answered, this one included, and those without an answer; `None` if none is configured.
    pub census: Option<Census>,
}

impl Replicas {
    /// Returns the id of this process.
    pub(in crate::engine) fn id(&self) -> &str {
        &self.id
    }

    /// Asks every other replica for a path of its admin port. Each replica counts once: this process is among
    /// the addresses of its own service, and a replica may have two names.
    pub(in crate::engine) async fn ask_others<T: DeserializeOwned>(
        &self,
        config: &Config,
        path: &str,
    ) -> OtherReplicas<T> {
        if config.server.peers.is_empty() {
            return OtherReplicas { answers: Vec::new(), census: None };
        }
        let (addresses, mut unreachable) = addresses(config).await;
        let asked = addresses.iter().copied().map(|address| client::page(config, address, path));
        let given: Vec<Result<OfReplica<T>, String>> = join_all(asked).await;
        let mut known = BTreeSet::from([self.id.clone()]);
        let mut answers = Vec::new();
        for (address, answer) in addresses.into_iter().zip(given) {
            match answer {
                Ok(OfReplica { replica, answer }) => {
                    if known.insert(replica.clone()) {
                        answers.push(OtherReplica { replica, address, answer });
                    }
                }
                Err(reason) => {
                    tracing::debug!(%address, reason, "another replica gave nothing for a page");
                    unreachable.push(address.to_string());
                }
            }
        }
        OtherReplicas { answers, census: Some(Census { replicas: known.len(), unreachable }) }
    }
}
