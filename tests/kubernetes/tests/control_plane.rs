//! Scenarios that need an API server and no pods, one module a theme.

#[cfg(test)]
mod scenario {
    mod backends;
    mod control_plane;
    mod crowd;
    mod leadership;
    mod packaging;
    mod repair;
    mod resources;
    mod services;
    mod stand_in;
    mod virtual_mcp_server;
}
