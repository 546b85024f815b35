//! Connections to MCP backends: transports, protocol era, pooling, breaker, deadlines.
