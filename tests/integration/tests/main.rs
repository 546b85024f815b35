//! Scenarios over the built binary, one module a theme.

#[cfg(test)]
mod scenario {
    mod agent_frameworks;
    mod audit;
    mod aws;
    mod backend_faults;
    mod bad_answers;
    mod bad_input;
    mod bad_messages;
    mod bad_states;
    mod bridge;
    mod bridge_guards;
    mod call_tool;
    mod changed_tools;
    mod client_certificates;
    mod client_port;
    mod clients;
    mod code_mode;
    mod collector;
    mod command_line;
    mod composite_tools;
    mod confirmation;
    mod connect;
    mod console;
    mod console_browser;
    mod console_newcomer;
    mod console_proxied;
    mod console_trying;
    mod contexts;
    mod credentials;
    mod diagnosis;
    mod edge;
    mod egress;
    mod embeddings;
    mod events;
    mod extensions;
    mod failover;
    mod fallback;
    mod find_tool;
    mod first_process;
    mod fixture;
    mod floods;
    mod fresh_start;
    mod hostile_client;
    mod hot_reload;
    mod identity;
    mod installation;
    mod isolation;
    mod kubernetes;
    mod laptop;
    mod large_answers;
    mod large_results;
    mod lifecycle;
    mod listeners;
    mod lists_and_calls;
    mod log_output;
    mod login;
    mod monitoring;
    mod newcomer;
    mod notifications;
    mod policies;
    mod process_hygiene;
    mod profiles;
    mod questions;
    mod rate_limits;
    mod real_codex;
    mod real_servers;
    mod recommendations;
    mod registry;
    mod replicas;
    mod resumed_calls;
    mod running_server;
    mod same_as_direct;
    mod same_name;
    mod secrets;
    mod server_changes;
    mod session_hooks;
    mod session_tools;
    mod shared_counts;
    mod shared_server;
    mod slow_clients;
    mod stdio_edge;
    mod storms;
    mod tasks;
    mod tasks_in_words;
    mod toolhive_composites;
    mod tools_api;
    mod traces;
    mod two_clients;
    mod upstream_tokens;
    mod webhooks;
    mod withdrawn;
}

/// Every test that a page names as proof exists.
#[test]
fn the_tests_that_the_documentation_names_exist() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/contributor/pairings.md")).expect("the page");
    let named: Vec<(&str, &str)> =
        page.split('`').skip(1).step_by(2).filter_map(|code| code.split_once("::")).collect();
    assert!(named.len() > 30, "the page names its tests");
    for (module, test) in named {
        let file = root.join(format!("tests/integration/tests/scenario/{module}.rs"));
        let scenarios = std::fs::read_to_string(file).unwrap_or_default();
        assert!(
            scenarios.contains(&format!("fn {test}()")),
            "docs/contributor/pairings.md names {module}::{test}"
        );
    }
}
