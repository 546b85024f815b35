//! MCP messages as they travel: raw envelopes, eras, headers, SSE, translations, sealed tokens; pure.
