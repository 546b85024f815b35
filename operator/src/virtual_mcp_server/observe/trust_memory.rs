//! [`TrustMemory`]: the trusted definitions that this process stored last, by server.
//!
//! The Secret keeps them for the next process. Deleted or edited by hand while this one runs, it would let
//! new pods trust whatever they see first: the definitions in memory are put back.

use std::collections::HashMap;

use kube::ResourceExt as _;
use kube::runtime::reflector::ObjectRef;
use parking_lot::Mutex;
use vmcp_crds::VirtualMCPServer;

use super::trusted_tools::KeptTrust;
use crate::runtime::Context;

/// The server's uid, and its document: a deleted and recreated server has another uid.
type Remembered = (Option<String>, Vec<u8>);

/// The documents, by server.
#[derive(Debug, Default)]
pub(in crate::virtual_mcp_server) struct TrustMemory(Mutex<HashMap<ObjectRef<VirtualMCPServer>, Remembered>>);

impl TrustMemory {
    /// Returns the document that was stored last.
    pub(in crate::virtual_mcp_server) fn kept(&self, server: &VirtualMCPServer) -> Option<Vec<u8>> {
        let remembered = self.0.lock();
        let (uid, document) = remembered.get(&ObjectRef::from_obj(server))?;
        (*uid == server.uid()).then(|| document.clone())
    }

    /// Remembers a document. `None` forgets it: the server keeps no definitions. A document that cannot be
    /// read is left to a person.
    pub(in crate::virtual_mcp_server) fn remember(
        &self,
        server: &VirtualMCPServer,
        trust: Option<&KeptTrust>,
        context: &Context,
    ) {
        let key = ObjectRef::from_obj(server);
        let mut remembered = self.0.lock();
        let Some(trust) = trust.filter(|trust| !trust.is_unreadable) else {
            remembered.remove(&key);
            return;
        };
        let document = trust.text.as_bytes();
        if remembered.get(&key).is_none_or(|(uid, known)| *uid != server.uid() || known != document) {
            // At each change, servers that are gone are dropped.
            let servers = &context.resources.virtual_mcp_servers;
            remembered
                .retain(|of, _| servers.get(of.namespace.as_deref().unwrap_or_default(), &of.name).is_some());
            remembered.insert(key, (server.uid(), document.to_vec()));
        }
    }
}
