//! Builds a snapshot of the backends' listings: catalog, view, index and checks against schemas. Computes and
//! reads the store; run it on a blocking thread.

pub(in crate::engine) mod session_snapshots;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use serde_json::value::RawValue;
use vmcp_config::Config;
use vmcp_model::catalog::{Catalog, CatalogTool};
use vmcp_search::{Document, Index, TEXT_VERSION, Vectors, vector_text};
use vmcp_store::{ContentKey, Store, StoreError};

use super::declarations::{BackendDeclarations, BackendListings};
use super::index_document::document;
use super::view::views::Views;
use super::{Quarantine, Snapshot};
use crate::access::configured::decision_point::decision_point;
use crate::access::configured::rate_limits::rate_limiter;
use crate::access::configured::webhooks::webhooks;
use crate::access::policy::Policy;
use crate::schema::ToolChecks;

/// Builds the snapshot that follows `before`, without the tools under `quarantine`; its generation is set
/// when it is published. `model` is the embedding model in use; with it, the index gets the vectors that the
/// store has.
pub(in crate::engine) fn snapshot(
    before: &Snapshot,
    config: Arc<Config>,
    policy: Arc<dyn Policy>,
    listings: BackendListings,
    quarantine: Quarantine,
    store: &Store,
    model: Option<&str>,
) -> Snapshot {
    let mut catalog = Catalog::build(&listings, &config.aggregation);
    if !quarantine.is_empty() {
        catalog.hide(|tool| is_quarantined(&quarantine, tool));
    }
    catalog.add_composites(&config.composite_tools, |tool| is_quarantined(&quarantine, tool));
    let catalog = Arc::new(catalog);
    let views = Views::new(&catalog, &config, &policy, Some(&before.views));
    let searchable = config.optimizer.enabled;
    let documents = catalog.tools.iter().filter(|_| searchable);
    let documents: Vec<_> =
        documents.map(|tool| if tool.listed { document(tool) } else { Document::default() }).collect();
    let texts = documents.iter().map(vector_text).collect();
    // At a start, lists come before the text is indexed: 500 tools take some 10 ms. Later, searches go on in
    // the index before until another is made.
    let index =
        if before.index.is_empty() { Index::deferred(documents) } else { before.index.renewed(&documents) };
    let mut after = Snapshot {
        generation: before.generation,
        index: Arc::new(index),
        checks: Arc::new(checks(before, &catalog)),
        tagged: OnceLock::new(),
        views: Arc::new(views),
        authentication: Arc::clone(&before.authentication),
        policy,
        tokens: Arc::clone(&before.tokens),
        backends: Arc::clone(&before.backends),
        declarations: Arc::new(BackendDeclarations::new(&listings, &config)),
        tasks: Arc::clone(&before.tasks),
        keys: Arc::clone(&before.keys),
        links: Arc::clone(&before.links),
        rate_limiter: rate_limiter(Some(&before.rate_limiter), &config),
        decision_point: decision_point(before.decision_point.as_ref(), &config),
        webhooks: Arc::new(webhooks(&before.webhooks, &config)),
        texts: Arc::new(texts),
        quarantine: Arc::new(quarantine),
        listings: Arc::new(listings),
        bridge: before.bridge,
        catalog,
        config,
    };
    if let Some(model) = model {
        match vectors(&after.texts, store, model, |_| None) {
            Ok(vectors) => after.index = Arc::new(after.index.with_vectors(vectors)),
            Err(error) => {
                tracing::warn!(%error, "embeddings could not be read from the cache; searches go by keywords");
            }
        }
    }
    after
}

/// True if a tool is hidden until its changed definition is approved.
pub(super) fn is_quarantined(quarantine: &Quarantine, tool: &CatalogTool) -> bool {
    quarantine.contains(&(Arc::clone(&tool.backend), tool.definition.name.clone()))
}

/// Reads the stored vectors of these texts, by position; `others` are vectors that are not stored.
pub fn vectors(
    texts: &[String],
    store: &Store,
    model: &str,
    others: impl Fn(&ContentKey) -> Option<Vec<f32>>,
) -> Result<Vectors, StoreError> {
    let key = |text: &String| (!text.is_empty()).then(|| ContentKey::new(TEXT_VERSION, model, text));
    let keys: Vec<_> = texts.iter().map(key).collect();
    let wanted: Vec<_> = keys.iter().flatten().copied().collect();
    let known = store.vectors(&wanted)?;
    // Cloned, not taken: several tools may have the same text, and each needs the vector.
    // Rows of one model have one width; should some differ, the majority is right.
    let dims = most_frequent(known.values().map(Vec::len)).unwrap_or_default();
    let vector = |key: ContentKey| known.get(&key).cloned().or_else(|| others(&key));
    Ok(Vectors::from_rows(dims, keys.into_iter().map(|key| vector(key?))))
}

fn most_frequent(widths: impl Iterator<Item = usize>) -> Option<usize> {
    let mut counts: HashMap<usize, usize> = HashMap::new();
    widths.for_each(|width| *counts.entry(width).or_default() += 1);
    counts.into_iter().max_by_key(|(width, count)| (*count, *width)).map(|(width, _)| width)
}

/// Carries compiled schemas over: the checks stay with their tool as long as the definition's hash, which
/// covers the input schema, and the output schema stay.
fn checks(before: &Snapshot, catalog: &Catalog) -> Vec<ToolChecks> {
    let check = |tool: &Arc<CatalogTool>| {
        let same = |old: &&Arc<CatalogTool>| {
            let [one, other] = [*old, tool].map(|tool| tool.definition.output_schema.as_deref());
            old.hash == tool.hash
                && old.backend == tool.backend
                && one.map(RawValue::get) == other.map(RawValue::get)
        };
        before.catalog.tool(&tool.name).filter(same).map(|old| before.check(old)).unwrap_or_default()
    };
    catalog.tools.iter().map(check).collect()
}
