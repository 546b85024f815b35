//! Settings that take effect at the next start only.

use vmcp_config::Config;

/// Returns the settings that are read at start only and differ from their value then.
pub fn needs_restart(at_start: &Config, now: &Config) -> Vec<&'static str> {
    let (server, new) = (&at_start.server, &now.server);
    let fixed = [
        ("server.listen", server.listen == new.listen),
        ("server.adminListen", server.admin_listen == new.admin_listen),
        ("server.maxConnections", server.max_connections == new.max_connections),
        ("server.receiveTimeout", server.receive_timeout == new.receive_timeout),
        ("server.writeTimeout", server.write_timeout == new.write_timeout),
        ("server.allowedHosts", server.allowed_hosts == new.allowed_hosts),
        ("server.allowedOrigins", server.allowed_origins == new.allowed_origins),
        ("optimizer.storage", at_start.optimizer.storage_dir == now.optimizer.storage_dir),
        ("telemetry", at_start.telemetry == now.telemetry),
        ("operational.logLevel", at_start.operational.log_level == now.operational.log_level),
    ];
    fixed.into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect()
}
