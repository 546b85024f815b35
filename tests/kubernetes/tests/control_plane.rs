//! Scenarios that need an API server and no pods, one module a theme.

#[cfg(test)]
mod scenario {
    mod added_servers;
    mod backends;
    mod claims;
    mod composite_tools;
    mod control_plane;
    mod credentials;
    mod crowd;
    mod deputies;
    mod exposure;
    mod faults;
    mod gitops;
    mod guarded_servers;
    mod images;
    mod leadership;
    mod lent_references;
    mod memberships;
    mod overrides;
    mod packaging;
    mod peers;
    mod permissions;
    mod pod_templates;
    mod reference_grants;
    mod repair;
    mod reports;
    mod resources;
    mod restore;
    mod rights;
    mod script_jobs;
    mod secrets;
    mod security;
    mod server_admin;
    mod services;
    mod stand_in;
    mod strict_namespaces;
    mod suspension;
    mod toolhive_group;
    mod traces;
    mod trusted_tools;
    mod unfollowed_fields;
    mod upgrades;
    mod virtual_mcp_server;
    mod webhook_configs;
}
