//! Building the catalog and its index, and putting another configuration in force.

use std::sync::Arc;

use anyhow::Result;
use serde_json::Value;
use vmcp::engine::snapshot::index_document::document;
use vmcp_config::rules::Aggregation;
use vmcp_model::catalog::Catalog;
use vmcp_model::discovered::{Discovered, Listing};
use vmcp_search::Index;

use crate::report::{Part, Report, Unit};
use crate::samples::interleaved;
use crate::stages::find_tool::{Bed, tools};

/// The rows of one size.
pub(crate) async fn measure(bed: &Bed, report: &mut Report) -> Result<()> {
    let size = bed.definitions.len();
    let runs = report.runs(if size > 1000 { 15 } else { 100 });
    let mut sources: Vec<(Arc<str>, Listing)> = Vec::new();
    for definition in &bed.definitions {
        if sources.last().is_none_or(|(server, _)| **server != *definition.server) {
            sources.push((definition.server.as_str().into(), Listing::default()));
        }
        if let Some((_, listing)) = sources.last_mut() {
            listing.tools.push(definition.raw.clone());
        }
    }
    let read = |(name, listing): &(Arc<str>, Listing)| {
        (Arc::clone(name), Arc::new(Discovered::read(listing.clone())))
    };
    let offered: Vec<_> = sources.iter().map(read).collect();

    let aggregate = || {
        let catalog = Catalog::build(&offered, &Aggregation::default());
        let documents: Vec<_> = catalog.tools.iter().map(|tool| document(tool)).collect();
        (Index::new(&documents), catalog)
    };
    let parse = || {
        let values =
            bed.definitions.iter().map(|definition| serde_json::from_str::<Value>(definition.raw.get()));
        values.collect::<Result<Vec<_>, _>>()
    };
    let (built, parsed) = interleaved(runs, async |_| Ok(aggregate()), async |_| Ok(parse()?)).await?;
    let what = format!("catalog and index of {}", tools(size));
    report.row(
        Part::Catalog,
        Unit::Seconds,
        (what.clone(), &built),
        ("parsing the definitions into JSON values", &parsed),
    );

    // Every reload changes something, and no backend.
    let (odd, even) = (bed.servers.config(7)?, bed.servers.config(8)?);
    let (reloaded, built) = interleaved(
        runs,
        async |run| Ok(bed.engine.apply(if run % 2 == 0 { even.clone() } else { odd.clone() }).await),
        async |_| Ok(aggregate()),
    )
    .await?;
    report.row(
        Part::Catalog,
        Unit::Seconds,
        (format!("another configuration in force, {} with vectors", tools(size)), &reloaded),
        (what, &built),
    );
    Ok(())
}
