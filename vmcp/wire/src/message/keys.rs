//! Keys of results and retried requests that exist in the modern era alone, or that an era restricts.

/// `resultType` of modern results.
pub const RESULT_TYPE: &str = "resultType";
/// What a modern server asks of its client.
pub const INPUT_REQUESTS: &str = "inputRequests";
/// What the client answers, in the retried request.
pub const INPUT_RESPONSES: &str = "inputResponses";
/// What a modern server wants back with those answers.
pub const REQUEST_STATE: &str = "requestState";
/// How long a result may be kept, in milliseconds.
pub const TTL_MS: &str = "ttlMs";
/// Who may share it.
pub const CACHE_SCOPE: &str = "cacheScope";
/// The result of a tool as data.
pub const STRUCTURED_CONTENT: &str = "structuredContent";
