//! [`KubernetesRegistrar`]: writes changes of servers by clients as resources of the cluster.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use kube::{Client, Config};
use tokio::sync::OnceCell;
use vmcp_engine::server_registrar::{
    MadeChange, NewServer, RegistrarError, ServerChange, ServerPlace, ServerRegistrar,
};
use vmcp_error_chain::error_chain;

use crate::calls::{CallError, ClusterApi};
use crate::ownership::{self, AddedServer};
use crate::server_kind::ServerKind;
use crate::virtual_server::VirtualServer;
use crate::{manifests, rules};

/// Writes servers as MCPServerEntries and MCPServers in the namespace of a VirtualMCPServer.
#[derive(Clone)]
pub struct KubernetesRegistrar(Arc<Inner>);

struct Inner {
    server: VirtualServer,
    client: OnceCell<Client>,
}

impl fmt::Debug for KubernetesRegistrar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubernetesRegistrar").field("server", &self.0.server).finish_non_exhaustive()
    }
}

impl KubernetesRegistrar {
    /// Makes the registrar of this process, which calls the API server with the pod's own token when the
    /// first change comes; `None` outside of a pod whose clients may add servers. The token is read again as
    /// the kubelet rotates it.
    pub fn from_environment() -> Option<KubernetesRegistrar> {
        let server = VirtualServer::from_variables(|name| std::env::var(name).ok())?;
        Some(KubernetesRegistrar(Arc::new(Inner { server, client: OnceCell::new() })))
    }

    /// Makes a registrar with a client of its own.
    pub fn new(server: VirtualServer, client: Client) -> KubernetesRegistrar {
        KubernetesRegistrar(Arc::new(Inner { server, client: OnceCell::new_with(Some(client)) }))
    }
}

impl ServerRegistrar for KubernetesRegistrar {
    fn change(&self, change: ServerChange) -> BoxFuture<'_, Result<MadeChange, RegistrarError>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move {
            // A change that has begun is made whole, also if its client goes away.
            let made = tokio::spawn(async move { inner.make(&change).await }).await;
            made.unwrap_or_else(|error| Err(RegistrarError::Unwritable(error.to_string())))
        })
    }

    fn runs_programs_in_pods(&self) -> bool {
        true
    }

    fn check(&self, server: &NewServer) -> Result<(), RegistrarError> {
        rules::check(&self.0.server, server)
    }

    fn place<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<ServerPlace>, RegistrarError>> {
        Box::pin(async move {
            let api = self.0.api().await?;
            self.0.added(&api, name).await?.place().map(Some)
        })
    }
}

impl Inner {
    async fn make(&self, change: &ServerChange) -> Result<MadeChange, RegistrarError> {
        let api = self.api().await?;
        match change {
            ServerChange::Add(server) => return self.add(&api, server).await,
            ServerChange::Remove { name } => self.write(&api, name, None).await?,
            ServerChange::SetEnabled { name, enabled } => self.write(&api, name, Some(*enabled)).await?,
        }
        Ok(MadeChange::default())
    }

    async fn api(&self) -> Result<ClusterApi<'_>, RegistrarError> {
        let client = self.client.get_or_try_init(async || {
            let mut config = Config::incluster().map_err(|error| error_chain(&error))?;
            // The API server is beside the pod, whatever proxy leads out of the cluster.
            config.proxy_url = None;
            Client::try_from(config).map_err(|error| error_chain(&error))
        });
        let client = client.await.map_err(|error: String| {
            RegistrarError::Unwritable(format!("the API server cannot be called from this pod: {error}"))
        })?;
        Ok(ClusterApi::new(client.clone(), &self.server))
    }

    /// Creates the resource, which claims the name, and after it the Secret that it owns. Without the Secret,
    /// the resource is taken back, unless its own creation got no answer.
    async fn add(&self, api: &ClusterApi<'_>, new: &NewServer) -> Result<MadeChange, RegistrarError> {
        rules::check(&self.server, new)?;
        let kind = manifests::kind_of(&new.place);
        self.check_other_kind(api, kind, &new.name).await?;
        let mut random = [0; 4];
        getrandom::fill(&mut random).map_err(|error| {
            RegistrarError::Unwritable(format!("the operating system gives no random bytes: {error}"))
        })?;
        let secret = manifests::secret_name(&self.server, &new.name, random);
        let created = api.create(kind, &manifests::resource(&self.server, new, &secret)).await;
        let created = created.map_err(|error| {
            if error.is_conflict() { RegistrarError::Taken(new.name.clone()) } else { unwritable(&error) }
        })?;
        let added = AddedServer::created(kind, &new.name, &created).map_err(RegistrarError::Unwritable)?;
        let completed = async {
            // Again: an addition of the other kind may have come in between, at this replica or another.
            self.check_other_kind(api, kind, &new.name).await?;
            match manifests::secret(&self.server, new, &secret, &added.uid) {
                Some(manifest) => api.create_secret(&manifest).await.map_err(|error| unwritable(&error)),
                None => Ok(()),
            }
        };
        let completed = completed.await;
        if completed.is_err()
            && let Err(error) = api.delete(&added).await
        {
            tracing::warn!(server = new.name, %error, "an addition that failed could not be taken back");
        }
        completed.map(|()| manifests::needed(&self.server, new, &secret))
    }

    /// Refuses a name that a resource of the other kind has: a name is that of one backend.
    async fn check_other_kind(
        &self,
        api: &ClusterApi<'_>,
        kind: ServerKind,
        name: &str,
    ) -> Result<(), RegistrarError> {
        let other = match kind {
            ServerKind::Program => ServerKind::Entry,
            ServerKind::Entry if self.server.runs_programs => ServerKind::Program,
            // Without the right to read the other kind, its names are known from the configuration.
            ServerKind::Entry => return Ok(()),
        };
        match api.get(other, name).await {
            Ok(None) => Ok(()),
            Ok(Some(_)) => Err(RegistrarError::Taken(name.to_owned())),
            Err(error) => Err(unwritable(&error)),
        }
    }

    /// Returns the server that was added here under a name.
    async fn added(&self, api: &ClusterApi<'_>, name: &str) -> Result<AddedServer, RegistrarError> {
        let programs = self.server.runs_programs.then_some(ServerKind::Program);
        for kind in std::iter::once(ServerKind::Entry).chain(programs) {
            if let Some(object) = api.get(kind, name).await.map_err(|error| unwritable(&error))? {
                return AddedServer::read(&self.server, kind, name, &object);
            }
        }
        Err(ownership::not_found(&self.server, name))
    }

    /// Removes an added server, or switches it on or off. If the object changed between the look and the
    /// write, both are done once more.
    async fn write(
        &self,
        api: &ClusterApi<'_>,
        name: &str,
        enabled: Option<bool>,
    ) -> Result<(), RegistrarError> {
        let mut is_last = false;
        loop {
            let added = self.added(api, name).await?;
            let written = match enabled {
                Some(enabled) => api.set_enabled(&added, enabled).await,
                None => api.delete(&added).await,
            };
            match written {
                Ok(()) => return Ok(()),
                Err(error) if error.is_missing() => return Err(RegistrarError::Unknown(name.to_owned())),
                Err(error) if error.is_conflict() && !is_last => is_last = true,
                Err(error) => return Err(unwritable(&error)),
            }
        }
    }
}

fn unwritable(error: &CallError) -> RegistrarError {
    RegistrarError::Unwritable(format!("the resource cannot be changed: {error}"))
}
