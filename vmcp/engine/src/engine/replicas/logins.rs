//! Tokens of one client at all replicas: each process keeps those of the calls that it made.

use std::net::SocketAddr;

use futures::future::join_all;
use serde::{Deserialize, Serialize};
use url::form_urlencoded;
use vmcp_access::identity::Identity;
use vmcp_config::Config;

use super::known::Census;
use super::{Replicas, addresses, client};

/// A client, by the source that vouches for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientName {
    /// The issuer.
    pub issuer: String,
    /// The subject, unique within the issuer.
    pub subject: String,
}

/// The tokens of a client for one backend. None of them is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientLogin {
    /// The backend's name.
    pub server: String,
    /// Kind of its credentials, as in the configuration.
    pub kind: String,
    /// Provider that gave the token when the person signed in through vmcp; the client's access token
    /// carries it. `None`: vmcp fetched the token in exchange for the client's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Time at which the last of the tokens expires, in seconds since 1970.
    pub expires: u64,
}

/// The tokens of a client at all replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TotalLogins {
    /// One entry for each backend.
    pub logins: Vec<ClientLogin>,
    /// Replicas that were asked; `None` if none is configured.
    pub census: Option<Census>,
}

impl ClientName {
    /// Returns [`Identity::digest`] of the client.
    pub(in crate::engine) fn digest(&self) -> [u8; 32] {
        Identity::digest_of(&self.issuer, &self.subject)
    }
}

/// The tokens of a client at one replica, as `GET /admin/logins` answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaLogins {
    /// Id of the replica, as lasting as its database.
    pub(super) replica: String,
    /// One entry for each backend.
    pub(super) logins: Vec<ClientLogin>,
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
        let (addresses, unreachable) = addresses(config).await;
        let asked = addresses.iter().copied().map(|address| fetch(config, address, of));
        let answers = join_all(asked).await;
        let (logins, census) = self.join(own, addresses.into_iter().zip(answers), unreachable);
        TotalLogins { logins, census: Some(census) }
    }

    /// Makes the other replicas forget the tokens of a client for one backend.
    pub(in crate::engine) async fn forget_login(&self, config: &Config, of: &ClientName, server: &str) {
        let (addresses, _) = addresses(config).await;
        join_all(addresses.into_iter().map(|address| order_to_forget(config, address, of, server))).await;
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

/// Fetches the tokens that a replica keeps for a client.
async fn fetch(config: &Config, address: SocketAddr, of: &ClientName) -> Result<ReplicaLogins, String> {
    let path = format!("/admin/logins?{}", client_query(of).finish());
    client::read(config, address, &path, client::MAX_REPORT_BYTES).await
}

/// Makes a replica forget the tokens of a client for one backend.
async fn order_to_forget(config: &Config, address: SocketAddr, of: &ClientName, server: &str) {
    let path = forget_path(of, server);
    if let Err(reason) = client::order(config, address, &path).await {
        tracing::warn!(%address, reason, "tokens of a client were not forgotten at another replica");
    }
}

// A serializer is not `Send`, so that none may live while an answer is awaited.
fn forget_path(of: &ClientName, server: &str) -> String {
    let mut query = client_query(of);
    query.append_pair("server", server).append_pair("scope", "own");
    format!("/admin/logins/forget?{}", query.finish())
}

fn client_query(of: &ClientName) -> form_urlencoded::Serializer<'static, String> {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("issuer", &of.issuer).append_pair("subject", &of.subject);
    query
}
