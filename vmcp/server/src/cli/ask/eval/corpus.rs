//! Builds the catalog of an evaluation from a file, with the code that builds the catalog of backends.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use vmcp_config::Aggregation;
use vmcp_model::catalog::{Catalog, CatalogTool};
use vmcp_model::discovered::{Discovered, Listing};
use vmcp_search::Document;

use super::files::{NeededTool, Query, ToolLine};
use crate::cli::console::notes;
use vmcp_engine::engine::snapshot::index_document;

/// Tools of the file, and their documents for the index.
pub(super) struct Corpus {
    catalog: Arc<Catalog>,
}

/// A definition as a backend would list it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Definition<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_schema: Option<&'a RawValue>,
}

impl Corpus {
    /// Reads the definitions. Definitions that no backend could offer are left out, with a note.
    pub(super) fn new(lines: Vec<ToolLine>) -> Corpus {
        let mut listings: BTreeMap<Arc<str>, Listing> = BTreeMap::new();
        for line in lines {
            let ToolLine { server, name, description, input_schema } = line;
            let definition = Definition {
                name: &name,
                description: description.as_deref(),
                input_schema: input_schema.as_deref().filter(|schema| schema.get() != "null"),
            };
            let listing = listings.entry(server.into()).or_default();
            // Strings and valid raw JSON cannot fail to serialize.
            listing.tools.extend(to_raw_value(&definition).ok());
        }
        let discovered = |(server, listing)| (server, Arc::new(Discovered::read(listing)));
        let backends: Vec<_> = listings.into_iter().map(discovered).collect();
        Corpus::of(Corpus::build(&backends, &Aggregation::default()))
    }

    /// Builds the catalog of listings by rules, and notes its issues.
    pub(super) fn build(backends: &[(Arc<str>, Arc<Discovered>)], rules: &Aggregation) -> Catalog {
        let catalog = Catalog::build(backends, rules);
        for issue in &catalog.issues {
            notes::note(&format!("warning: {issue}"));
        }
        catalog
    }

    /// Makes a corpus of a catalog.
    pub(super) fn of(catalog: Catalog) -> Corpus {
        Corpus { catalog: Arc::new(catalog) }
    }

    /// The catalog.
    pub(super) fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Returns the number of tools.
    pub(super) fn len(&self) -> usize {
        self.catalog.tools.len()
    }

    /// Returns the tool of a document of the index.
    pub(super) fn tool(&self, document: usize) -> Option<&CatalogTool> {
        self.catalog.tools.get(document).map(AsRef::as_ref)
    }

    /// Returns all tools in the order of their documents.
    pub(super) fn tools(&self) -> &[Arc<CatalogTool>] {
        &self.catalog.tools
    }

    /// Returns the documents that the index is built from.
    pub(super) fn documents(&self) -> Vec<Document> {
        self.catalog.tools.iter().map(|tool| index_document::document(tool)).collect()
    }

    /// Returns a tool that a query needs and that the catalog does not have.
    pub(super) fn unknown<'a>(&self, query: &'a Query) -> Option<&'a NeededTool> {
        let known: HashSet<_> =
            self.catalog.tools.iter().map(|tool| (&*tool.backend, tool.definition.name.as_str())).collect();
        query.groups.iter().flatten().find(|need| !known.contains(&need.as_pair()))
    }
}
