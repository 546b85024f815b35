//! `spec.config.operational` as ToolHive writes it: health checks, and time limits longer than the default
//! upper one.

use std::borrow::Cow;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};
use vmcp_config::parse_duration;
use vmcp_config::raw::{RawDuration, RawOperational};

use crate::fields::yaml_block::Block;

/// Upper limit of a tool call unless `proxy.maxToolTimeout` is given, as in `vmcp.yaml`.
const MAX_TOOL_TIMEOUT: Duration = Duration::from_mins(10);
/// Default of `proxy.maxToolTimeout` in the definition, as text.
const MAX_TOOL_TIMEOUT_TEXT: &str = "10m";

/// Settings of ToolHive's health checks: name below `operational.failureHandling`, setting of vmcp with the
/// same effect, which wins where both are given, its default, as text, and description.
///
/// The default counts as not given: the API server writes it into every block that has the setting.
const HEALTH_CHECKS: [(&str, HealthCheckSetting, &str, &str); 3] = [
    (
        "healthCheckInterval",
        HealthCheckSetting::Proxy("refreshInterval"),
        "300s",
        "Interval at which backends are listed again, which shows whether they are alive; `proxy.refreshInterval` \
         wins, unless it has its default.",
    ),
    (
        "healthCheckTimeout",
        HealthCheckSetting::Proxy("connectionTimeout"),
        "30s",
        "Time limit of one connection attempt; `proxy.connectionTimeout` wins, unless it has its default.",
    ),
    (
        "unhealthyThreshold",
        HealthCheckSetting::FailureThreshold,
        "5",
        "Consecutive failures after which calls of a backend are held back; `circuitBreaker.failureThreshold` \
         wins, unless it has its default.",
    ),
];

/// Setting of vmcp that a setting of ToolHive's health checks becomes.
#[derive(Debug, Clone, Copy)]
enum HealthCheckSetting {
    /// A duration of the block `proxy`.
    Proxy(&'static str),
    /// `operational.failureHandling.circuitBreaker.failureThreshold`.
    FailureThreshold,
}

impl HealthCheckSetting {
    /// Returns the path in `vmcp.yaml`.
    fn path(self) -> String {
        match self {
            Self::Proxy(name) => format!("proxy.{name}"),
            Self::FailureThreshold => {
                "operational.failureHandling.circuitBreaker.failureThreshold".to_owned()
            }
        }
    }
}

/// Schema of `operational`, with the settings of ToolHive's health checks.
pub(super) struct OperationalSchema;

impl JsonSchema for OperationalSchema {
    fn schema_name() -> Cow<'static, str> {
        "OperationalSettings".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = RawOperational::json_schema(generator);
        let handling = "/properties/failureHandling/properties";
        for (name, setting, _, description) in HEALTH_CHECKS {
            let mut property = match setting {
                HealthCheckSetting::Proxy(_) => RawDuration::json_schema(generator),
                HealthCheckSetting::FailureThreshold => schemars::json_schema!({
                    "type": "integer", "format": "int32", "minimum": 1, "maximum": 1000,
                }),
            };
            property.insert("description".to_owned(), description.into());
            if let Some(Value::Object(properties)) = schema.pointer_mut(handling) {
                properties.insert(name.to_owned(), property.into());
            }
        }
        schema
    }
}

/// Moves the settings of health checks to those of vmcp with the same effect. Returns each path in
/// `vmcp.yaml` that a setting was moved to, and its path in the resource.
pub(in super::super) fn move_health_checks(
    operational: &mut Block,
    proxy: &mut Block,
) -> Vec<(String, String)> {
    let Some(Value::Object(handling)) = operational.get_mut("failureHandling") else { return Vec::new() };
    let mut moved = Vec::new();
    for (name, setting, default, _) in HEALTH_CHECKS {
        let Some(value) = handling.shift_remove(name).filter(|value| !value.is_null()) else { continue };
        let (block, key) = match setting {
            HealthCheckSetting::Proxy(key) => (Some(&mut *proxy), key),
            HealthCheckSetting::FailureThreshold => {
                // A `null` stands for an absent block.
                if handling.get("circuitBreaker").is_some_and(Value::is_null) {
                    handling.shift_remove("circuitBreaker");
                }
                let breaker = handling.entry("circuitBreaker").or_insert_with(|| json!({}));
                (breaker.as_object_mut(), "failureThreshold")
            }
        };
        let Some(block) = block else { continue };
        if block.get(key).is_none_or(|given| is_default(given, default)) {
            block.insert(key.to_owned(), value);
            moved.push((setting.path(), format!("spec.config.operational.failureHandling.{name}")));
        }
    }
    moved
}

/// Returns true for a value that the API server may have written: `null`, or the default, which is compared
/// as text.
fn is_default(value: &Value, default: &str) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text == default,
        other => {
            let text = other.to_string();
            text == default
        }
    }
}

/// Raises the upper limit of tool calls, unless another than the default is given, to the longest time limit
/// of the resource: ToolHive has no upper limit.
pub(in super::super) fn raise_max_tool_timeout(operational: &Block, proxy: &mut Block) {
    if proxy.get("maxToolTimeout").is_some_and(|limit| !is_default(limit, MAX_TOOL_TIMEOUT_TEXT)) {
        return;
    }
    let timeouts = operational.get("timeouts");
    let of_backends = timeouts.and_then(|timeouts| timeouts.get("perWorkload")).and_then(Value::as_object);
    let shared = [timeouts.and_then(|timeouts| timeouts.get("default")), proxy.get("toolTimeout")];
    let limits = shared.into_iter().flatten().chain(of_backends.into_iter().flat_map(|all| all.values()));
    let longest = limits
        .filter_map(|limit| {
            let text = limit.as_str()?;
            Some((parse_duration(text)?, text.to_owned()))
        })
        .max()
        .filter(|(limit, _)| *limit > MAX_TOOL_TIMEOUT);
    if let Some((_, text)) = longest {
        proxy.insert("maxToolTimeout".to_owned(), text.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(value: Value) -> Block {
        let Value::Object(block) = value else { panic!("{value}") };
        block
    }

    #[test]
    fn the_default_limit_is_that_of_the_file() {
        let loaded = vmcp_config::load("{}", "vmcp.yaml", &|_| None).unwrap();
        assert_eq!(loaded.config.proxy.max_tool_timeout, MAX_TOOL_TIMEOUT);
        assert_eq!(parse_duration(MAX_TOOL_TIMEOUT_TEXT), Some(MAX_TOOL_TIMEOUT));
    }

    /// Returns the properties of a block of `spec.config` in the definition.
    fn properties_of(block: &str) -> Value {
        let definitions = crate::definitions::all();
        let definition =
            definitions.iter().find(|definition| definition.spec.names.kind == "VirtualMCPServer").unwrap();
        let schema = json!(definition.spec.versions[0].schema);
        let pointer =
            format!("/openAPIV3Schema/properties/spec/properties/config/properties/{block}/properties");
        schema.pointer(&pointer).unwrap_or_else(|| panic!("{pointer}")).clone()
    }

    #[test]
    fn the_known_defaults_are_those_that_the_api_server_writes() {
        let proxy = properties_of("proxy");
        assert_eq!(proxy["maxToolTimeout"]["default"], MAX_TOOL_TIMEOUT_TEXT);
        let breaker = properties_of("operational/properties/failureHandling/properties/circuitBreaker");
        for (name, setting, default, _) in HEALTH_CHECKS {
            let written = match setting {
                HealthCheckSetting::Proxy(key) => &proxy[key]["default"],
                HealthCheckSetting::FailureThreshold => &breaker["failureThreshold"]["default"],
            };
            assert!(!written.is_null() && is_default(written, default), "{name}: {written}");
        }
    }

    #[test]
    fn health_checks_become_settings_of_vmcp_that_are_not_given() {
        let mut operational = block(json!({ "failureHandling": {
            "healthCheckInterval": "30s", "healthCheckTimeout": "5s", "unhealthyThreshold": 3,
            "partialFailureMode": "fail",
        } }));
        let mut proxy = block(json!({ "connectionTimeout": "9s" }));
        let moved = move_health_checks(&mut operational, &mut proxy);
        assert_eq!(Value::from(proxy), json!({ "connectionTimeout": "9s", "refreshInterval": "30s" }));
        let handling = json!({ "partialFailureMode": "fail", "circuitBreaker": { "failureThreshold": 3 } });
        assert_eq!(Value::from(operational), json!({ "failureHandling": handling }));
        let paths: Vec<_> = moved.iter().map(|(path, _)| path.as_str()).collect();
        let threshold = "operational.failureHandling.circuitBreaker.failureThreshold";
        assert_eq!(paths, ["proxy.refreshInterval", threshold]);
    }

    #[test]
    fn health_checks_replace_defaults_that_the_api_server_writes() {
        let written = json!({ "enabled": true, "failureThreshold": 5, "timeout": "30s" });
        let replaced = json!({ "enabled": true, "failureThreshold": 2, "timeout": "30s" });
        let own = json!({ "enabled": true, "failureThreshold": 4 });
        for (breaker, expected) in
            [(written, replaced), (json!(null), json!({ "failureThreshold": 2 })), (own.clone(), own)]
        {
            let mut operational = block(json!({ "failureHandling": {
                "healthCheckInterval": "45s", "healthCheckTimeout": "7s", "unhealthyThreshold": 2,
                "circuitBreaker": breaker,
            } }));
            let mut proxy = block(json!({
                "lazyConnect": false, "connectionTimeout": "30s", "refreshInterval": "300s",
            }));
            move_health_checks(&mut operational, &mut proxy);
            assert_eq!(proxy["connectionTimeout"], "7s");
            assert_eq!(proxy["refreshInterval"], "45s");
            assert_eq!(operational["failureHandling"]["circuitBreaker"], expected);
        }
    }

    #[test]
    fn the_upper_limit_follows_the_longest_time_limit_of_a_call() {
        for (operational, proxy, limit) in [
            (json!({ "timeouts": { "default": "30m" } }), json!({}), json!("30m")),
            (
                json!({ "timeouts": { "default": "30m", "perWorkload": { "a": "1h30m" } } }),
                json!({}),
                json!("1h30m"),
            ),
            (json!({}), json!({ "toolTimeout": "11m" }), json!("11m")),
            (json!({ "timeouts": { "default": "10m" } }), json!({}), json!(null)),
            (json!({ "timeouts": { "default": "30m" } }), json!({ "maxToolTimeout": "10m" }), json!("30m")),
            (json!({ "timeouts": { "default": "5m" } }), json!({ "maxToolTimeout": "10m" }), json!("10m")),
            (json!({ "timeouts": { "default": "30m" } }), json!({ "maxToolTimeout": "20m" }), json!("20m")),
        ] {
            let mut proxy = block(proxy);
            raise_max_tool_timeout(&block(operational.clone()), &mut proxy);
            assert_eq!(proxy.get("maxToolTimeout").cloned().unwrap_or_default(), limit, "{operational}");
        }
    }
}
