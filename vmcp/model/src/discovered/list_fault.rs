//! [`ListFault`]: a list that a backend could not be read for, or not whole. It costs that list alone.

use serde::{Deserialize, Serialize};

use crate::definition::DefinitionKind;

/// A list of a backend that could not be read whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListFault {
    /// Kind of the list's entries.
    pub kind: DefinitionKind,
    /// Clause that names the answer in place of the list.
    pub reason: String,
    /// Part of the list that is served.
    pub extent: ListExtent,
}

/// Part of a list that is served although the list could not be read whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ListExtent {
    /// Nothing: no listing has ever read it.
    Missing,
    /// The pages that came.
    Pages,
    /// The entries of an earlier listing.
    Earlier,
}

impl ListFault {
    /// Returns the method that asks for the list.
    pub fn method(&self) -> &'static str {
        match self.kind {
            DefinitionKind::Tool => "tools/list",
            DefinitionKind::Resource => "resources/list",
            DefinitionKind::ResourceTemplate => "resources/templates/list",
            DefinitionKind::Prompt => "prompts/list",
        }
    }

    /// Returns the reason and its effect, as one sentence without a full stop.
    pub fn message(&self) -> String {
        let effect = match self.extent {
            ListExtent::Missing => "nothing of this list is known",
            ListExtent::Pages => "the pages that came are served",
            ListExtent::Earlier => "the list of before is served",
        };
        format!("{}; {effect}", self.reason)
    }
}
