//! A memory of the last good configuration, for as long as the resource's configuration is refused.
//!
//! The ConfigMap and the Secret hold the last good configuration, and nothing else does. It is remembered
//! when the configuration goes bad, so that an edit or deletion of these two by hand is repaired. Deleted
//! while no operator runs, it is lost.

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::runtime::reflector::ObjectRef;
use vmcp_crds::VirtualMCPServer;
use vmcp_crds::lower::{ADMIN_TOKEN, SESSION_KEY, TRUSTED_TOOLS};

use crate::runtime::Context;

/// A configuration as pods mount it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MountedConfiguration {
    /// The text of `vmcp.yaml`.
    pub text: String,
    /// The values of its references, by file name, without generated ones.
    pub secrets: BTreeMap<String, Vec<u8>>,
}

impl MountedConfiguration {
    /// Joins the text of the ConfigMap and the values of the Secret.
    pub(super) fn new(text: String, secret: &Secret) -> Self {
        let generated = [ADMIN_TOKEN, SESSION_KEY, TRUSTED_TOOLS];
        let data = secret.data.iter().flatten().filter(|(file, _)| !generated.contains(&file.as_str()));
        Self { text, secrets: data.map(|(file, ByteString(value))| (file.clone(), value.clone())).collect() }
    }
}

impl MountedConfiguration {
    /// Returns the bytes of the values and of their names in the Secret.
    pub(super) fn secret_bytes(&self) -> usize {
        self.secrets.iter().map(|(file, value)| file.len() + value.len()).sum()
    }

    /// Returns true if the text names a file of trusted tools.
    pub(super) fn reads_trusted_tools(&self) -> bool {
        self.text.contains("trustedToolsPath: ")
    }
}

/// The remembered configurations, by server.
#[derive(Debug, Default)]
pub(super) struct LastGood(Mutex<HashMap<ObjectRef<VirtualMCPServer>, Remembered>>);

/// The server's uid, and its configuration: a deleted and recreated server has another uid.
type Remembered = (Option<String>, MountedConfiguration);

impl LastGood {
    /// Returns the last good configuration, which was mounted when the resource became invalid.
    pub(super) fn mounted(&self, server: &VirtualMCPServer) -> Option<MountedConfiguration> {
        let remembered = self.0.lock();
        let (uid, mounted) = remembered.get(&ObjectRef::from_obj(server))?;
        (*uid == server.uid()).then(|| mounted.clone())
    }

    /// Remembers the mounted configuration of a server whose new one is refused; `None` forgets it, since the
    /// new one is good.
    pub(super) fn remember(
        &self,
        server: &VirtualMCPServer,
        before: Option<&MountedConfiguration>,
        context: &Context,
    ) {
        let key = ObjectRef::from_obj(server);
        let mut remembered = self.0.lock();
        let Some(mounted) = before else {
            remembered.remove(&key);
            return;
        };
        if remembered.get(&key).is_none_or(|(uid, known)| *uid != server.uid() || known != mounted) {
            // At each addition, servers that are gone are dropped.
            let servers = &context.resources.virtual_mcp_servers;
            remembered
                .retain(|of, _| servers.get(of.namespace.as_deref().unwrap_or_default(), &of.name).is_some());
            remembered.insert(key, (server.uid(), mounted.clone()));
        }
    }
}
