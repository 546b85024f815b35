//! [`CachedRegistry`]: the registry of search_registry and install_server, kept in memory for an hour.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use vmcp_engine::server_registrar::registry_reader::{RegistryContent, RegistryReader};

use crate::cli::setup::registry::source::{self, LoadedRegistry};

/// Age up to which entries are kept.
const FRESH: Duration = Duration::from_hours(1);
/// Age up to which a failure is kept: clients that ask again and again do not reach the registry.
const FAILED: Duration = Duration::from_secs(30);
/// Time for which a client waits; the registry is read on in the background.
const WAIT: Duration = Duration::from_secs(30);

/// A registry that was read, or the reason why not.
struct ReadOnce {
    registry: Option<String>,
    at: Instant,
    content: Result<Arc<RegistryContent>, String>,
}

impl ReadOnce {
    fn is_fresh(&self, registry: Option<&str>) -> bool {
        let limit = if self.content.is_ok() { FRESH } else { FAILED };
        self.registry.as_deref() == registry && self.at.elapsed() < limit
    }
}

/// Reads one registry at a time (single flight), and keeps the last one.
#[derive(Default)]
pub(super) struct CachedRegistry(Arc<Mutex<Option<ReadOnce>>>);

impl RegistryReader for CachedRegistry {
    fn read(&self, registry: Option<&str>) -> BoxFuture<'static, Result<Arc<RegistryContent>, String>> {
        let (last, registry) = (Arc::clone(&self.0), registry.map(str::to_owned));
        let read = async move {
            let mut last = last.lock_owned().await;
            if let Some(read) = last.as_ref().filter(|read| read.is_fresh(registry.as_deref())) {
                return read.content.clone();
            }
            // A task of its own: a client that goes away does not begin the reading again.
            let reading = tokio::spawn(async move {
                let from = registry.clone();
                let loaded = spawn_blocking(move || source::load(from.as_deref(), false)).await;
                let content = match loaded {
                    Ok(Ok(LoadedRegistry { name, catalog, notes })) => {
                        for note in notes {
                            tracing::info!(registry = name, note, "read the registry");
                        }
                        Ok(Arc::new(RegistryContent { source: name, catalog }))
                    }
                    Ok(Err(failure)) => Err(failure.message().to_owned()),
                    Err(error) => Err(error.to_string()),
                };
                *last = Some(ReadOnce { registry, at: Instant::now(), content: content.clone() });
                content
            });
            reading.await.unwrap_or_else(|error| Err(error.to_string()))
        };
        Box::pin(async move {
            let late = "the registry is still being read; ask again in a minute";
            timeout(WAIT, read).await.unwrap_or_else(|_| Err(late.to_owned()))
        })
    }
}
