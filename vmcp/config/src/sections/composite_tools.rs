//! `compositeTools`: tools whose steps call other tools.

use std::collections::BTreeSet;
use std::sync::Arc;

use vmcp_workflow::CompositeTool;
use vmcp_workflow::raw::RawCompositeTool;

use crate::problems::{self, Report};

/// Most composite tools.
const MAX_TOOLS: usize = 1000;

/// Validates all composite tools.
pub(crate) fn validate(raw: &[RawCompositeTool], report: &mut Report) -> Vec<Arc<CompositeTool>> {
    if raw.len() > MAX_TOOLS {
        let message = format!("{} composite tools; at most {MAX_TOOLS} are served", raw.len());
        report.problem("compositeTools", message, "run a second vmcp for the others");
    }
    let mut names = BTreeSet::new();
    let mut tools = Vec::new();
    for (index, raw) in raw.iter().enumerate() {
        let path = problems::item("compositeTools", index);
        match CompositeTool::read(raw) {
            Ok(tool) => tools.push(Arc::new(tool)),
            Err(mistakes) => {
                for mistake in mistakes {
                    let path = if mistake.path.is_empty() {
                        path.clone()
                    } else {
                        format!("{path}.{}", mistake.path)
                    };
                    if !report.is_dropped(&path) {
                        report.problem(&path, mistake.message, mistake.remedy);
                    }
                }
            }
        }
        if !names.insert(raw.name.as_str()) {
            let message = format!("`{}` is the name of another composite tool, too", raw.name);
            report.problem(&format!("{path}.name"), message, "choose another");
        }
    }
    tools
}
