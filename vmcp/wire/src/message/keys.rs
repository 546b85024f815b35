//! Keys of results, questions and retried requests that only one era has, or that the legacy era restricts.

/// `resultType` of modern results.
pub const RESULT_TYPE: &str = "resultType";
/// `inputRequests`: the questions of a modern server, in a result of the type `input_required`.
pub const INPUT_REQUESTS: &str = "inputRequests";
/// `inputResponses`: the client's answers, in the retried request.
pub const INPUT_RESPONSES: &str = "inputResponses";
/// `requestState`: opaque text that the client sends back with its answers.
pub const REQUEST_STATE: &str = "requestState";
/// `elicitationId`: the id of a visit to a URL, in 2025-11-25.
pub const ELICITATION_ID: &str = "elicitationId";
/// `ttlMs`: how long a client may cache the result, in milliseconds.
pub const TTL_MS: &str = "ttlMs";
/// `cacheScope`: `private` or `public`; says if a cached result may be shared between clients.
pub const CACHE_SCOPE: &str = "cacheScope";
/// `structuredContent`: a tool's result as data; in the legacy era an object only.
pub const STRUCTURED_CONTENT: &str = "structuredContent";
