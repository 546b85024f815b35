//! Scenarios over the built binary, one module a theme.

#[cfg(test)]
mod scenario {
    mod backend_faults;
    mod bad_answers;
    mod bad_input;
    mod bad_messages;
    mod bad_states;
    mod call_tool;
    mod clients;
    mod command_line;
    mod edge;
    mod embeddings;
    mod extensions;
    mod failover;
    mod find_tool;
    mod fixture;
    mod hot_reload;
    mod lifecycle;
    mod listeners;
    mod lists_and_calls;
    mod notifications;
    mod questions;
    mod real_servers;
    mod slow_clients;
    mod stdio_edge;
    mod tasks;
    mod traces;
}
