//! From the paths of `vmcp.yaml` to those of the resource, where people can mend it.

use super::surroundings::Surroundings;
use crate::problem::Problem;
use crate::virtual_mcp_server::{Validated, WrittenAs};

/// ToolHive's names for settings of the optimizer.
const FLAT: [(&str, &str); 9] = [
    ("optimizer.search.maxTools", "maxToolsToReturn"),
    ("optimizer.search.hybridSemanticRatio", "hybridSearchSemanticRatio"),
    ("optimizer.search.semanticDistanceThreshold", "semanticDistanceThreshold"),
    ("optimizer.embeddings.tei.endpoint", "embeddingService"),
    ("optimizer.embeddings.tei.timeout", "embeddingServiceTimeout"),
    ("optimizer.embeddings.tei.headers", "embeddingHeaders"),
    ("optimizer.embeddings.openai.endpoint", "embeddingService"),
    ("optimizer.embeddings.openai.timeout", "embeddingServiceTimeout"),
    ("optimizer.embeddings.openai.headers", "embeddingHeaders"),
];

pub(super) fn of_resource(
    server: &Validated,
    around: &Surroundings<'_>,
    found: vmcp_config::Problem,
) -> Problem {
    let vmcp_config::Problem { path, message, remedy, line: _ } = found;
    Problem { path: path_in_resource(server, around, &path), message, remedy }
}

fn path_in_resource(server: &Validated, around: &Surroundings<'_>, path: &str) -> String {
    let block = path.split(['.', '[']).next().unwrap_or_default();
    match block {
        "optimizer" => optimizer(server, path),
        "aggregation" | "operational" | "proxy" | "server" => format!("spec.config.{path}"),
        "telemetry" => "spec.telemetryConfigRef".to_owned(),
        "backends" => backend(around, path),
        "" => "spec".to_owned(),
        _ => format!("spec.{path}"),
    }
}

fn optimizer(server: &Validated, path: &str) -> String {
    if server.optimizer.as_ref().is_none_or(|optimizer| optimizer.written_as == WrittenAs::Optimizer) {
        return format!("spec.{path}");
    }
    let name = FLAT.iter().find(|(ours, _)| path.starts_with(ours));
    name.map_or_else(
        || "spec.config.optimizer".to_owned(),
        |(ours, flat)| format!("spec.config.optimizer.{flat}{}", path.strip_prefix(ours).unwrap_or_default()),
    )
}

/// `backends[1].url` → `backend github: url`, for the resource is another one.
fn backend(around: &Surroundings<'_>, path: &str) -> String {
    let at = path.strip_prefix("backends[").and_then(|rest| rest.split_once(']'));
    let mut names: Vec<&str> = around.backends.iter().map(|backend| backend.name.as_str()).collect();
    names.sort_unstable();
    let found = at.and_then(|(index, rest)| Some((names.get(index.parse::<usize>().ok()?)?, rest)));
    found.map_or_else(
        || path.to_owned(),
        |(name, rest)| format!("backend {name}: {}", rest.trim_start_matches('.')),
    )
}
