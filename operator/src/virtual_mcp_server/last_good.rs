//! The last good configuration, for as long as what is written makes no sense.
//!
//! It is what the ConfigMap and the Secret hold, and nowhere else can it be had from. So it is remembered when the configuration
//! goes bad: whoever deletes or edits them then gets them back. What is deleted while no operator runs is lost.

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::runtime::reflector::ObjectRef;
use vmcp_crds::VirtualMCPServer;
use vmcp_crds::lower::{ADMIN_TOKEN, SESSION_KEY};

use crate::runtime::Context;

/// A configuration that was put in force before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mounted {
    /// `vmcp.yaml`.
    pub text: String,
    /// The values of its secrets, by file; without those that the operator makes up.
    pub secrets: BTreeMap<String, Vec<u8>>,
}

impl Mounted {
    /// The text of the ConfigMap, with the values of the Secret.
    pub(super) fn new(text: String, secret: &Secret) -> Self {
        let data =
            secret.data.iter().flatten().filter(|(file, _)| *file != ADMIN_TOKEN && *file != SESSION_KEY);
        Self { text, secrets: data.map(|(file, ByteString(value))| (file.clone(), value.clone())).collect() }
    }
}

/// What is remembered, by server.
#[derive(Debug, Default)]
pub(super) struct LastGood(Mutex<HashMap<ObjectRef<VirtualMCPServer>, Remembered>>);

/// Of a server with this uid.
type Remembered = (Option<String>, Mounted);

impl LastGood {
    /// What was mounted when the configuration of the server went bad.
    pub(super) fn of(&self, server: &VirtualMCPServer) -> Option<Mounted> {
        let remembered = self.0.lock();
        let (uid, mounted) = remembered.get(&ObjectRef::from_obj(server))?;
        (*uid == server.uid()).then(|| mounted.clone())
    }

    /// Remembers what was mounted before (`Some`), or that the configuration is good.
    pub(super) fn remember(&self, server: &VirtualMCPServer, before: Option<&Mounted>, context: &Context) {
        let key = ObjectRef::from_obj(server);
        let mut remembered = self.0.lock();
        let Some(mounted) = before else {
            remembered.remove(&key);
            return;
        };
        if remembered.get(&key).is_none_or(|(uid, known)| *uid != server.uid() || known != mounted) {
            let servers = &context.resources.virtual_mcp_servers;
            remembered
                .retain(|of, _| servers.get(of.namespace.as_deref().unwrap_or_default(), &of.name).is_some());
            remembered.insert(key, (server.uid(), mounted.clone()));
        }
    }
}
