//! Filters of an HTTPRoute, in the words and limits of the Gateway API. Filters that make no sense before an
//! MCP endpoint are left out.

mod guarded_headers;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use self::guarded_headers::{HEADER_IS_GUARDED, is_guarded};
use crate::fields::cel_rules::{Rule, rules};
use crate::fields::yaml_block::Block;
use crate::problem::Problem;

/// Pattern of a header's name, a token of HTTP.
const HEADER_NAME: &str = r"^[A-Za-z0-9!#$%&'*+\-.^_`|~]+$";
/// Pattern of a header's value: printable ASCII, with blanks inside.
const HEADER_VALUE: &str = r"^[!-~]([\t -~]*[!-~])?$";
/// Pattern of an API group; the core group is empty.
const API_GROUP: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$";
/// Pattern of a kind.
const KIND: &str = "^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$";

// Messages of the API server; in a condition, the remedy after the semicolon stands by itself.
const MIRROR: &str = "RequestMirror sends every call twice, with its side effects; remove the filter";
const REDIRECT: &str = "RequestRedirect answers in place of the server; remove the filter, and redirect by an HTTPRoute of your own";
const CORS: &str = "vmcp answers CORS itself, and browsers refuse two answers; remove the filter, and set \
    spec.config.server.allowedOrigins";
const BLOCK_OF_TYPE: &str = "the block of a filter is not the one of its type; write only the one of the type, \
    such as urlRewrite for URLRewrite";
const PATH_OF_TYPE: &str = "the new path is not in the field of its type; write only replaceFullPath for \
    ReplaceFullPath, only replacePrefixMatch for ReplacePrefixMatch";
const REPEATED: &str = "a filter of this type is there already, and gateways follow one; merge the two";

/// Types that a rule has once; of `ExtensionRef` there may be several.
const ONCE: [HttpRouteFilterType; 3] = [
    HttpRouteFilterType::RequestHeaderModifier,
    HttpRouteFilterType::ResponseHeaderModifier,
    HttpRouteFilterType::UrlRewrite,
];

/// Rule for the list of filters: most types stand once.
pub(super) const NO_TYPE_TWICE: Rule = (
    "['RequestHeaderModifier', 'ResponseHeaderModifier', 'URLRewrite'].all(kind, self.filter(each, each.type == kind).size() <= 1)",
    REPEATED,
);

/// Rules for one filter.
const FILTER_RULES: &[Rule] = &[
    ("self.type != 'RequestMirror' && !has(self.requestMirror)", MIRROR),
    ("self.type != 'RequestRedirect' && !has(self.requestRedirect)", REDIRECT),
    ("self.type != 'CORS' && !has(self.cors)", CORS),
    (
        "has(self.requestHeaderModifier) == (self.type == 'RequestHeaderModifier') && \
         has(self.responseHeaderModifier) == (self.type == 'ResponseHeaderModifier') && \
         has(self.urlRewrite) == (self.type == 'URLRewrite') && \
         has(self.extensionRef) == (self.type == 'ExtensionRef')",
        BLOCK_OF_TYPE,
    ),
];

/// A filter of the gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(FILTER_RULES)))]
pub struct HttpRouteFilter {
    /// Type of the filter, which decides about the block beside it.
    #[serde(rename = "type")]
    pub kind: HttpRouteFilterType,
    /// Headers of requests to change, for `RequestHeaderModifier`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_header_modifier: Option<HeaderModifier>,
    /// Headers of answers to change, for `ResponseHeaderModifier`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_header_modifier: Option<HeaderModifier>,
    /// Path of requests to `path` to change, for `URLRewrite`. The host stays, for vmcp compares it with
    /// `config.server.allowedHosts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url_rewrite: Option<UrlRewrite>,
    /// Object of the gateway's own to apply, for `ExtensionRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extension_ref: Option<ExtensionReference>,
    /// Refused: every call would be sent twice, with its side effects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_block")]
    pub request_mirror: Option<Block>,
    /// Refused: the gateway would answer in place of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_block")]
    pub request_redirect: Option<Block>,
    /// Refused: vmcp answers CORS itself, for `config.server.allowedOrigins`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_block")]
    pub cors: Option<Block>,
}

/// Type of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HttpRouteFilterType {
    /// Changes headers of requests.
    RequestHeaderModifier,
    /// Changes headers of answers.
    ResponseHeaderModifier,
    /// Changes the path of requests.
    #[serde(rename = "URLRewrite")]
    UrlRewrite,
    /// Applies an object of the gateway's own, such as a rate limit or a sign-in.
    ExtensionRef,
    /// Refused.
    RequestMirror,
    /// Refused.
    RequestRedirect,
    /// Refused.
    #[serde(rename = "CORS")]
    Cors,
}

/// Changes of headers. Credentials, cookies, `Host`, `Origin`, media types and headers of MCP and CORS are
/// not among them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = guarded_headers::rule()))]
pub struct HeaderModifier {
    /// Headers with the only value that they have then. At most 16.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub set: Vec<HttpHeader>,
    /// Headers with an additional value, beside existing ones. At most 16.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub add: Vec<HttpHeader>,
    /// Names of headers that are taken away. At most 16.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        inner(length(min = 1, max = 256), regex(pattern = HEADER_NAME)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub remove: Vec<String>,
}

/// A header and its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HttpHeader {
    /// Name of the header; case does not matter.
    #[schemars(length(min = 1, max = 256), regex(pattern = HEADER_NAME))]
    pub name: String,
    /// Value of the header, printable ASCII. Not a secret: readers of the resource see it.
    #[schemars(length(min = 1, max = 4096), regex(pattern = HEADER_VALUE))]
    pub value: String,
}

/// Change of the URL of requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UrlRewrite {
    /// Path that the server gets.
    pub path: PathRewrite,
}

/// Path that replaces the path of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "has(self.replaceFullPath) == (self.type == 'ReplaceFullPath') && \
     has(self.replacePrefixMatch) == (self.type == 'ReplacePrefixMatch')",
    PATH_OF_TYPE,
)])))]
pub struct PathRewrite {
    /// Part of the path that is replaced.
    #[serde(rename = "type")]
    pub kind: PathRewriteType,
    /// Path in place of the whole one, such as `/mcp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024), regex(pattern = r"^/[^\s?#]*$"))]
    pub replace_full_path: Option<String>,
    /// Path in place of `path`, such as `/mcp`; the rest stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024), regex(pattern = r"^/[^\s?#]*$"))]
    pub replace_prefix_match: Option<String>,
}

/// Part of a path that is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PathRewriteType {
    /// All of it.
    ReplaceFullPath,
    /// `path`, with which it begins.
    ReplacePrefixMatch,
}

/// An object of the gateway's own, in the namespace of this server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExtensionReference {
    /// API group of the object, such as `gateway.envoyproxy.io`; empty for the core group.
    #[schemars(length(max = 253), regex(pattern = API_GROUP))]
    pub group: String,
    /// Kind of the object, such as `HTTPRouteFilter`.
    #[schemars(length(min = 1, max = 63), regex(pattern = KIND))]
    pub kind: String,
    /// Name of the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

fn any_block(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// Finds filters that are refused, repeated or have the block of another type, and guarded headers.
pub(super) fn check(filters: &[HttpRouteFilter], problems: &mut Vec<Problem>) {
    let path = "spec.httpRoute.filters";
    for kind in ONCE {
        if filters.iter().filter(|filter| filter.kind == kind).count() > 1 {
            problems.push(problem(path, REPEATED));
        }
    }
    for (index, filter) in filters.iter().enumerate() {
        filter.check(&format!("{path}[{index}]"), problems);
    }
}

/// Returns the problem of a message with its remedy.
fn problem(path: &str, text: &str) -> Problem {
    let (message, remedy) = text.split_once("; ").unwrap_or((text, "remove it"));
    Problem::new(path, message, remedy)
}

impl HttpRouteFilter {
    fn check(&self, path: &str, problems: &mut Vec<Problem>) {
        use HttpRouteFilterType as Type;
        for (kind, block, text) in [
            (Type::RequestMirror, &self.request_mirror, MIRROR),
            (Type::RequestRedirect, &self.request_redirect, REDIRECT),
            (Type::Cors, &self.cors, CORS),
        ] {
            if self.kind == kind || block.is_some() {
                problems.push(problem(path, text));
            }
        }
        let blocks = [
            (Type::RequestHeaderModifier, self.request_header_modifier.is_some()),
            (Type::ResponseHeaderModifier, self.response_header_modifier.is_some()),
            (Type::UrlRewrite, self.url_rewrite.is_some()),
            (Type::ExtensionRef, self.extension_ref.is_some()),
        ];
        if blocks.iter().any(|(kind, is_given)| (self.kind == *kind) != *is_given) {
            problems.push(problem(path, BLOCK_OF_TYPE));
        }
        for (block, modifier) in [
            ("requestHeaderModifier", &self.request_header_modifier),
            ("responseHeaderModifier", &self.response_header_modifier),
        ] {
            if let Some(modifier) = modifier {
                modifier.check(&format!("{path}.{block}"), problems);
            }
        }
        let rewrite = self.url_rewrite.as_ref().map(|rewrite| &rewrite.path);
        if rewrite.is_some_and(|path| !path.has_field_of_type()) {
            problems.push(problem(&format!("{path}.urlRewrite.path"), PATH_OF_TYPE));
        }
    }
}

impl HeaderModifier {
    fn check(&self, path: &str, problems: &mut Vec<Problem>) {
        let set = self.set.iter().map(|header| ("set", &header.name));
        let added = self.add.iter().map(|header| ("add", &header.name));
        let removed = self.remove.iter().map(|name| ("remove", name));
        for (list, name) in set.chain(added).chain(removed) {
            if is_guarded(name) {
                problems.push(problem(&format!("{path}.{list}.{name}"), HEADER_IS_GUARDED));
            }
        }
    }
}

impl PathRewrite {
    fn has_field_of_type(&self) -> bool {
        self.replace_full_path.is_some() == (self.kind == PathRewriteType::ReplaceFullPath)
            && self.replace_prefix_match.is_some() == (self.kind == PathRewriteType::ReplacePrefixMatch)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn problems(filters: Value) -> Vec<String> {
        let filters: Vec<HttpRouteFilter> = serde_json::from_value(filters).expect("filters");
        let mut problems = Vec::new();
        check(&filters, &mut problems);
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn headers_that_tell_clients_apart_are_guarded_in_any_case_and_any_list() {
        for name in ["Authorization", "ORIGIN", "x-api-key", "Mcp-Session-Id", "vmcp-forwarded", "Host"] {
            for modifier in [
                json!({ "set": [{ "name": name, "value": "a" }] }),
                json!({ "add": [{ "name": name, "value": "a" }] }),
                json!({ "remove": [name] }),
            ] {
                let filter = json!({ "type": "ResponseHeaderModifier", "responseHeaderModifier": modifier });
                let found = problems(json!([filter]));
                assert_eq!(found.len(), 1, "{name}: {found:?}");
                assert!(
                    found[0].starts_with("spec.httpRoute.filters[0].responseHeaderModifier."),
                    "{found:?}"
                );
                assert!(found[0].contains(name), "{found:?}");
            }
        }
    }

    #[test]
    fn a_filter_that_makes_no_sense_is_refused_with_the_reason() {
        for (filter, says) in [
            (json!({ "type": "RequestMirror", "requestMirror": {} }), "sends every call twice"),
            (json!({ "type": "RequestRedirect" }), "answers in place of the server"),
            (
                json!({ "type": "CORS", "cors": { "allowOrigins": ["*"] } }),
                "spec.config.server.allowedOrigins",
            ),
        ] {
            let found = problems(json!([filter]));
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(
                found[0].starts_with("spec.httpRoute.filters[0]") && found[0].contains(says),
                "{found:?}"
            );
        }
    }

    #[test]
    fn extensions_may_stand_several_times_and_nothing_else() {
        let extension = json!({ "type": "ExtensionRef", "extensionRef": { "group": "a.example", "kind": "Limit", "name": "n" } });
        assert_eq!(problems(json!([extension, extension])), Vec::<String>::new());
        let rewrite = json!({
            "type": "URLRewrite",
            "urlRewrite": { "path": { "type": "ReplacePrefixMatch", "replacePrefixMatch": "/mcp" } },
        });
        assert_eq!(problems(json!([rewrite, extension])), Vec::<String>::new());
        let found = problems(json!([rewrite, extension, rewrite]));
        assert!(found.len() == 1 && found[0].contains("merge the two"), "{found:?}");
    }
}
