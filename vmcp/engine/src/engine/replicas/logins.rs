//! Tokens of one client at all replicas: each process keeps those of the calls that it made.

use std::net::SocketAddr;

use futures::future::join_all;
use vmcp_config::Config;

use super::known::Census;
use super::{LOOKUP_TIMEOUT, Replicas, addresses, client};

pub use super::answers::{ClientLogin, ClientName, ReplicaLogins};

/// The tokens of a client at all replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TotalLogins {
    /// One entry for each backend.
    pub logins: Vec<ClientLogin>,
    /// Replicas that were asked; `None` if none is configured.
    pub census: Option<Census>,
}

impl Replicas {
    /// Makes the answer of this process, which keeps `logins`.
    pub(in crate::engine) fn own_logins(&self, logins: Vec<ClientLogin>) -> ReplicaLogins {
        ReplicaLogins { replica: self.id.clone(), logins }
    }

    /// Adds the tokens that other replicas keep for a client to the `own` ones of this process.
    pub(in crate::engine) async fn total_logins(
        &self,
        config: &Config,
        of: &ClientName,
        own: Vec<ClientLogin>,
    ) -> TotalLogins {
        if config.server.peers.is_empty() {
            return TotalLogins { logins: own, census: None };
        }
        let (addresses, unreachable) = addresses(config, LOOKUP_TIMEOUT).await;
        let asked = addresses.iter().copied().map(|address| client::logins(config, address, of));
        let answers = join_all(asked).await;
        let (logins, census) = self.join(own, addresses.into_iter().zip(answers), unreachable);
        TotalLogins { logins, census: Some(census) }
    }

    /// Makes the other replicas forget the tokens of a client for one backend.
    pub(in crate::engine) async fn forget_login(&self, config: &Config, of: &ClientName, server: &str) {
        let (addresses, _) = addresses(config, LOOKUP_TIMEOUT).await;
        join_all(addresses.into_iter().map(|address| client::forget_login(config, address, of, server)))
            .await;
    }

    /// Joins the answers by backend: of several replicas, the token that lasts longest counts.
    fn join(
        &self,
        mut logins: Vec<ClientLogin>,
        answers: impl Iterator<Item = (SocketAddr, Result<ReplicaLogins, String>)>,
        mut unreachable: Vec<String>,
    ) -> (Vec<ClientLogin>, Census) {
        let mut replicas = 1;
        for (address, answer) in answers {
            match answer {
                Ok(other) if other.replica == self.id => {}
                Ok(other) => {
                    replicas += 1;
                    for login in other.logins {
                        match logins.iter_mut().find(|known| known.server == login.server) {
                            Some(known) => known.expires = known.expires.max(login.expires),
                            None => logins.push(login),
                        }
                    }
                }
                Err(reason) => {
                    tracing::debug!(%address, reason, "another replica did not tell the logins of a client");
                    unreachable.push(address.to_string());
                }
            }
        }
        (logins, Census { replicas, unreachable })
    }
}
