//! What needs an API server and no pods, one module a theme.

#[cfg(test)]
mod scenario {
    mod control_plane;
    mod leadership;
    mod packaging;
    mod resources;
    mod stand_in;
    mod virtual_mcp_server;
}
