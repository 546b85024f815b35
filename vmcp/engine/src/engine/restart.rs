//! Settings that take effect at the next start only.

use vmcp_config::{Config, Telemetry};

/// Returns the settings that are read at start only and differ from their value then.
pub fn needs_restart(at_start: &Config, now: &Config) -> Vec<&'static str> {
    unchanged(at_start, now).into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect()
}

/// Returns each of [`SETTINGS_AT_START`](vmcp_config::SETTINGS_AT_START) with true if it is as it was.
fn unchanged(at_start: &Config, now: &Config) -> [(&'static str, bool); 12] {
    let (server, new) = (&at_start.server, &now.server);
    [
        ("server.listen", server.listen == new.listen),
        ("server.adminListen", server.admin_listen == new.admin_listen),
        ("server.eventsListen", server.events_listen == new.events_listen),
        ("server.tls", server.tls.is_some() == new.tls.is_some()),
        ("server.maxConnections", server.max_connections == new.max_connections),
        ("server.receiveTimeout", server.receive_timeout == new.receive_timeout),
        ("server.writeTimeout", server.write_timeout == new.write_timeout),
        ("server.allowedHosts", server.allowed_hosts == new.allowed_hosts),
        ("server.allowedOrigins", server.allowed_origins == new.allowed_origins),
        ("optimizer.storage", keeps_storage(at_start, now)),
        ("telemetry", exports(at_start) == exports(now)),
        ("operational.logLevel", at_start.operational.log_level == now.operational.log_level),
    ]
}

/// Returns the settings of exports, which are read at the start; the console reads the others from the
/// snapshot.
fn exports(config: &Config) -> Telemetry {
    Telemetry { trace_url: None, ..config.telemetry.clone() }
}

/// False if the folder differs, or the process began without one: data of an optimizer that is switched on
/// later stay in memory.
fn keeps_storage(at_start: &Config, now: &Config) -> bool {
    let (before, after) = (&at_start.optimizer, &now.optimizer);
    before.storage_dir == after.storage_dir && (before.enabled || !after.enabled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_optimizer_that_is_switched_on_has_its_storage_from_the_next_start() {
        let [off, on] = ["optimizer: { enabled: false }\n", ""].map(crate::testing::config);
        assert_eq!(needs_restart(&off, &on), ["optimizer.storage"]);
        assert!(needs_restart(&on, &off).is_empty() && needs_restart(&off, &off).is_empty());
    }

    #[test]
    fn the_address_of_traces_is_in_force_at_once() {
        let [before, after, other] = [
            "telemetry: { traceUrl: \"https://a.example/{traceId}\" }\n",
            "telemetry: { traceUrl: \"https://b.example/{traceId}\" }\n",
            "telemetry: { serviceName: other }\n",
        ]
        .map(crate::testing::config);
        assert!(needs_restart(&before, &after).is_empty());
        assert_eq!(needs_restart(&before, &other), ["telemetry"]);
    }

    #[test]
    fn every_setting_that_is_read_at_start_is_compared() {
        let config = crate::testing::config("");
        let names = unchanged(&config, &config).map(|(name, same)| {
            assert!(same);
            name
        });
        assert_eq!(names, vmcp_config::SETTINGS_AT_START);
    }
}
