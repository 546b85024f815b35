//! [`RegistryReader`]: reads the registry in which clients find servers. The command line implements it.

use std::sync::Arc;

use futures::future::BoxFuture;
use vmcp_registry::catalog::RegistryCatalog;

/// The entries of a registry.
#[derive(Debug)]
pub struct RegistryContent {
    /// Its URL or path.
    pub source: String,
    /// Its entries, all of them untrusted.
    pub catalog: RegistryCatalog,
}

/// Reads registries.
pub trait RegistryReader: Send + Sync {
    /// Returns the entries of a registry, the official one for `None`. They are kept for a while. The error
    /// is a sentence for a person.
    fn read(&self, registry: Option<&str>) -> BoxFuture<'static, Result<Arc<RegistryContent>, String>>;
}
