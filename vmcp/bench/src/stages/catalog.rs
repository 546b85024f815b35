//! Rows of the stage `find-tool` about the catalog: building it with its index, and reloading the
//! configuration.

use std::sync::Arc;

use anyhow::Result;
use serde_json::Value;
use vmcp_config::rules::Aggregation;
use vmcp_engine::engine::snapshot::index_document::document;
use vmcp_model::catalog::Catalog;
use vmcp_model::discovered::{Discovered, Listing};
use vmcp_search::Index;

use crate::report::{Report, Section, Unit};
use crate::samples::interleaved;
use crate::synthetic_tools::count_in_words;
use crate::testbed::search_testbed::SearchTestbed;

/// Measures one size of the catalog, and adds the rows.
pub(crate) async fn measure(testbed: &SearchTestbed, report: &mut Report) -> Result<()> {
    let size = testbed.definitions.len();
    let runs = report.runs(if size > 1000 { 15 } else { 100 });
    let mut sources: Vec<(Arc<str>, Listing)> = Vec::new();
    for definition in &testbed.definitions {
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
            testbed.definitions.iter().map(|definition| serde_json::from_str::<Value>(definition.raw.get()));
        values.collect::<Result<Vec<_>, _>>()
    };
    let (built, parsed) = interleaved(runs, async |_| Ok(aggregate()), async |_| Ok(parse()?)).await?;
    let what = format!("catalog and index of {}", count_in_words(size));
    report.row(
        Section::Catalog,
        Unit::Seconds,
        (what.clone(), &built),
        ("parsing the definitions into JSON values", &parsed),
    );

    // Odd and even configurations differ in `maxTools`, so that every reload applies something, and no
    // backend reconnects.
    let (odd, even) = (testbed.servers.config(7)?, testbed.servers.config(8)?);
    let (reloaded, built) = interleaved(
        runs,
        async |run| Ok(testbed.engine.apply(if run % 2 == 0 { even.clone() } else { odd.clone() }).await),
        async |_| Ok(aggregate()),
    )
    .await?;
    report.row(
        Section::Catalog,
        Unit::Seconds,
        (format!("another configuration in force, {} with vectors", count_in_words(size)), &reloaded),
        (what, &built),
    );
    Ok(())
}
