//! Translates paths of `vmcp.yaml` to those of the resource, where a person can correct them.

use super::referenced_objects::ReferencedObjects;
use super::webhooks;
use crate::problem::Problem;
use crate::virtual_mcp_server::{Validated, WrittenAs, authz};

/// Paths of optimizer settings, and the names that ToolHive gives them in `spec.config.optimizer`.
const FLAT_NAMES: [(&str, &str); 9] = [
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

/// Paths of settings of the console, and their names in `spec.console`. The longest first.
const CONSOLE_NAMES: [(&str, &str); 4] = [
    ("server.consoleSignIn.clientSecret", "signIn.clientSecretRef"),
    ("server.consoleSignIn", "signIn"),
    ("server.console", "access"),
    ("server.viewerTokens", "viewerTokenSecretRefs"),
];

pub(super) fn of_resource(server: &Validated, referenced: &ReferencedObjects<'_>, found: Problem) -> Problem {
    let Problem { path, message, remedy, line: _ } = found;
    Problem::new(path_in_resource(server, referenced, &path), message, remedy)
}

fn path_in_resource(server: &Validated, referenced: &ReferencedObjects<'_>, path: &str) -> String {
    if let Some((_, written)) = server.settings.moved.iter().find(|(moved, _)| moved == path) {
        return written.clone();
    }
    if let Some(at) = console(path).or_else(|| admin_token(path)) {
        return at;
    }
    let block = path.split(['.', '[']).next().unwrap_or_default();
    match block {
        "optimizer" => optimizer(server, path),
        "code" if server.settings.is_code_mode => code_mode(path),
        "aggregation" | "audit" | "code" | "operational" | "profiles" | "proxy" | "rateLimiting"
        | "server" => {
            format!("spec.config.{path}")
        }
        "telemetry" => "spec.telemetryConfigRef".to_owned(),
        "backends" => backend(referenced, path),
        "incomingAuth" => incoming_auth(server, path),
        "compositeTools" => composite_tool(server, referenced, path),
        "authServer" => {
            format!("spec.authServerConfig{}", path.strip_prefix("authServer").unwrap_or_default())
        }
        "webhooks" => webhook(referenced, path),
        "" => "spec".to_owned(),
        _ => format!("spec.{path}"),
    }
}

/// Translates `server.consoleSignIn.redirectUri` to its place in `spec.console`; `None` for other paths.
fn console(path: &str) -> Option<String> {
    let (theirs, own) = CONSOLE_NAMES.into_iter().find(|(theirs, _)| path.starts_with(theirs))?;
    Some(format!("spec.console.{own}{}", path.strip_prefix(theirs)?))
}

/// Translates `server.adminTokens[1]`: the first one is the operator's own.
fn admin_token(path: &str) -> Option<String> {
    let (index, rest) = path.strip_prefix("server.adminTokens[")?.split_once(']')?;
    let index = index.parse::<usize>().ok()?.checked_sub(1)?;
    Some(format!("spec.console.operatorTokenSecretRefs[{index}]{rest}"))
}

/// Translates `incomingAuth.authz.policies[1]` to the place of the policies.
fn incoming_auth(server: &Validated, path: &str) -> String {
    if path.starts_with("incomingAuth.oidc") {
        return "spec.incomingAuth.oidcConfigRef".to_owned();
    }
    let Some(rest) = path.strip_prefix("incomingAuth.authz") else { return format!("spec.{path}") };
    let settings = &server.settings.incoming_auth;
    if let Some(name) = authz::reference(settings) {
        return format!("MCPAuthzConfig {name}: spec.config{rest}");
    }
    if settings.contains_key("authz") {
        format!("spec.{path}")
    } else if authz::policy_file(settings).is_some() {
        format!("spec.incomingAuth.authzConfig.configMap (cedar{rest})")
    } else {
        format!("spec.incomingAuth.authzConfig.inline{rest}")
    }
}

/// Translates `webhooks.post[3].url` to the place of the webhook in its MCPWebhookConfig.
fn webhook(referenced: &ReferencedObjects<'_>, path: &str) -> String {
    let found = || {
        let (kind, mut index, field) = webhooks::split(path)?;
        for config in referenced.webhooks {
            let (_, webhooks) = config.kinds().into_iter().find(|(name, _)| *name == kind)?;
            if index < webhooks.len() {
                return Some(format!("MCPWebhookConfig {}: spec.{kind}[{index}]{field}", config.name));
            }
            index -= webhooks.len();
        }
        None
    };
    found().unwrap_or_else(|| format!("spec.{path}"))
}

fn optimizer(server: &Validated, path: &str) -> String {
    if server.optimizer.as_ref().is_none_or(|optimizer| optimizer.written_as == WrittenAs::Optimizer) {
        return format!("spec.{path}");
    }
    let name = FLAT_NAMES.iter().find(|(yaml_path, _)| path.starts_with(yaml_path));
    name.map_or_else(
        || "spec.config.optimizer".to_owned(),
        |(yaml_path, flat)| {
            format!("spec.config.optimizer.{flat}{}", path.strip_prefix(yaml_path).unwrap_or_default())
        },
    )
}

/// Translates `code.maxParallel` to ToolHive's name.
fn code_mode(path: &str) -> String {
    match path {
        "code.maxParallel" => "spec.config.codeMode.parallelMaxConcurrency".to_owned(),
        "code.callTimeout" => "spec.config.codeMode.toolCallTimeout".to_owned(),
        _ => "spec.config.codeMode".to_owned(),
    }
}

/// Translates `compositeTools[3].name` to the place of the tool: the resource, or a definition of its own.
fn composite_tool(server: &Validated, referenced: &ReferencedObjects<'_>, path: &str) -> String {
    let own = server.settings.composite_tools.len();
    let at = path.strip_prefix("compositeTools[").and_then(|rest| rest.split_once(']'));
    let found = at.and_then(|(index, rest)| {
        let index = index.parse::<usize>().ok()?.checked_sub(own)?;
        Some((&referenced.composite_tools.get(index)?.resource, rest))
    });
    found.map_or_else(
        || format!("spec.config.{path}"),
        |(name, rest)| format!("VirtualMCPCompositeToolDefinition {name}: spec{rest}"),
    )
}

/// Translates `backends[1].url` to `backend github: url`: a backend is a resource of its own.
fn backend(referenced: &ReferencedObjects<'_>, path: &str) -> String {
    let at = path.strip_prefix("backends[").and_then(|rest| rest.split_once(']'));
    let mut names: Vec<&str> = referenced.backends.iter().map(|backend| backend.name.as_str()).collect();
    names.sort_unstable();
    let found = at.and_then(|(index, rest)| Some((names.get(index.parse::<usize>().ok()?)?, rest)));
    found.map_or_else(
        || path.to_owned(),
        |(name, rest)| format!("backend {name}: {}", rest.trim_start_matches('.')),
    )
}
