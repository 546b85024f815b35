//! Starter file that `vmcp init` writes.

/// Commented starter file with every setting. Optional settings are commented out without a space after `#`,
/// which tells them from prose.
pub const STARTER: &str = include_str!("starter.yaml");

/// File with the ports, the tools and the time limits of Gobby.
pub const PRESET_GOBBY: &str = include_str!("preset_gobby.yaml");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writing::schema::shared;
    use crate::{load, load_with_files};

    /// The file with every setting that is commented out taken in.
    fn everything() -> String {
        let uncomment = |line: &str| match line.trim_start().strip_prefix('#') {
            Some(setting) if setting.starts_with(|c: char| c.is_ascii_alphabetic() || c == '-') => {
                line.replacen('#', "", 1)
            }
            _ => line.to_owned(),
        };
        STARTER.lines().map(|line| uncomment(line) + "\n").collect()
    }

    #[test]
    fn the_preset_has_the_ports_and_time_limits_of_gobby() {
        let preset = load(PRESET_GOBBY, "vmcp.yaml", &|_| None).unwrap();
        assert_eq!(preset.warnings, []);
        let config = preset.config;
        assert_eq!((config.server.listen.port(), config.server.admin_listen.port()), (8765, 8767));
        assert_eq!(config.proxy.tool_timeout.as_secs(), 60);
        assert_eq!(config.code.timeout.as_secs(), 30);
        assert!(config.optimizer.tools.contains(&crate::OptimTool::ExecuteCode));
    }

    #[test]
    fn it_loads_as_it_is_and_changes_no_default() {
        let starter = load(STARTER, "vmcp.yaml", &|_| None).unwrap();
        assert_eq!(starter.warnings, []);
        let plain =
            load("backends: [{ name: time, command: [uvx, mcp-server-time] }]", "", &|_| None).unwrap();
        assert_eq!(starter.config, plain.config);
    }

    #[test]
    fn it_loads_with_every_setting_taken_in() {
        // The blocks of the providers that are not chosen are the only thing to warn of.
        let value = "a value of some length".to_owned();
        let pem = "-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----".to_owned();
        // TLS excludes addresses of replicas, and sign-in through vmcp excludes anonymous clients.
        let excluded = |line: &str| line.contains("peerAddress") || line.starts_with("incomingAuth");
        let text: String = everything()
            .lines()
            .filter(|line| !excluded(line))
            .fold(String::new(), |text, line| text + line + "\n");
        let loaded =
            load_with_files(&text, "vmcp.yaml", &|_| Some(value.clone()), &|_| Ok(Some(pem.clone())))
                .unwrap_or_else(|problems| panic!("{problems}"));
        let warned: Vec<_> = loaded.warnings.iter().map(|warning| warning.path.as_str()).collect();
        assert_eq!(warned, ["optimizer.embeddings.tei", "optimizer.embeddings.openai"]);
    }

    #[test]
    fn it_shows_every_block_of_the_schema() {
        let file: serde_json::Value = serde_saphyr::from_str(&everything()).unwrap();
        for block in ["", "aggregation", "optimizer", "proxy", "operational", "server"] {
            let (definition, shown) = if block.is_empty() {
                (shared(), &file)
            } else {
                let mut name = block.to_owned();
                name[..1].make_ascii_uppercase();
                (&shared()["$defs"][&name], &file[block])
            };
            for key in definition["properties"].as_object().unwrap().keys() {
                assert!(shown.get(key).is_some(), "{block}.{key} is not in the starter file");
            }
        }
    }
}
