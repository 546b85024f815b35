//! Answers of other replicas for pages of the console, such as their latest calls.
//!
//! A fan-out, as for usage over days: a person asks now and then, and nothing of an answer is kept. All
//! replicas are asked at once. A page waits for at most the time limit of its kind, shows the answers that
//! have come, and names the other replicas.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use futures::future::join_all;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use vmcp_config::Config;

use super::known::Census;
use super::{Replicas, addresses, client};

/// A kind of question to the other replicas, by the time that a person waits for the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// New rows of a page that asks again by itself: 0.5 s. Rows of a slow replica come with a later answer.
    Rows,
    /// A page: 1 s.
    Page,
    /// One thing that a single replica has: 3 s.
    Thing,
}

impl Waiting {
    /// Returns the time limit of the whole question, the resolution of names included.
    fn limit(self) -> Duration {
        match self {
            Waiting::Rows => Duration::from_millis(500),
            Waiting::Page => Duration::from_secs(1),
            Waiting::Thing => Duration::from_secs(3),
        }
    }
}

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
        waiting: Waiting,
    ) -> OtherReplicas<T> {
        if config.server.peers.is_empty() {
            return OtherReplicas { answers: Vec::new(), census: None };
        }
        let until = Instant::now() + waiting.limit();
        // Half of the time: a name server that hangs leaves the rest to replicas whose names are known.
        let (addresses, mut unreachable) = addresses(config, waiting.limit() / 2).await;
        let asked = addresses.iter().copied().map(|address| client::page(config, address, path, until));
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

#[cfg(test)]
mod tests {
    use axum::Json;
    use axum::Router;
    use axum::routing::get;
    use serde_json::json;
    use tokio::net::TcpListener;

    use super::*;
    use crate::testing::{KEYWORDS, config, engine};

    #[tokio::test]
    async fn a_replica_that_never_answers_delays_no_page_and_is_named() {
        let engine = engine(KEYWORDS).await;
        let answer = || async { Json(json!({"replica": "other", "answer": 7})) };
        let answering = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (well, hung) = (answering.local_addr().unwrap(), silent.local_addr().unwrap());
        let served = axum::serve(answering, Router::new().route("/x", get(answer)));
        let serving = tokio::spawn(served.into_future());
        let mut asking = config(KEYWORDS);
        asking.server.peers = vec![well.to_string(), hung.to_string()];
        engine.apply(asking).await;
        let begun = Instant::now();
        let others: OtherReplicas<u8> = engine.ask_other_replicas("/x", Waiting::Rows).await;
        assert!(begun.elapsed() < Duration::from_millis(2_500), "{:?}", begun.elapsed());
        assert!(others.census.unwrap().unreachable.contains(&hung.to_string()));
        // A busy machine may need more than the half second of rows.
        let others: OtherReplicas<u8> = engine.ask_other_replicas("/x", Waiting::Thing).await;
        let answers: Vec<_> = others.answers.iter().map(|other| (other.address, other.answer)).collect();
        assert_eq!(answers, [(well, 7)]);
        let census = others.census.unwrap();
        assert_eq!((census.replicas, census.unreachable), (2, vec![hung.to_string()]));
        serving.abort();
    }
}
