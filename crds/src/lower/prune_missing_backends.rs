//! Prunes settings about backends that do not exist, each with a warning.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::fields::yaml_block::Block;
use crate::problem::Problem;

/// Prunes the blocks of `vmcp.yaml`. A value of a wrong shape is left to the validator of the file.
pub(super) struct MissingBackends<'a> {
    pub(super) backends: BTreeSet<&'a str>,
    pub(super) warnings: &'a mut Vec<Problem>,
}

impl MissingBackends<'_> {
    pub(super) fn aggregation(&mut self, aggregation: &mut Block) {
        const PATH: &str = "spec.config.aggregation";
        if let Some(Value::Array(tools)) = aggregation.get_mut("tools") {
            self.retain(tools, &format!("{PATH}.tools"), Some("workload"));
        }
        let path = format!("{PATH}.conflictResolutionConfig.priorityOrder");
        let none_left = {
            let config = aggregation.get_mut("conflictResolutionConfig").and_then(Value::as_object_mut);
            let order =
                config.and_then(|config| config.get_mut("priorityOrder")).and_then(Value::as_array_mut);
            order.is_some_and(|order| {
                let given = !order.is_empty();
                self.retain(order, &path, None);
                given && order.is_empty()
            })
        };
        // Strategy `priority` with an empty order would rank no backend; backends outside the order get a
        // prefix, so all do.
        if none_left && aggregation.get("conflictResolution").is_some_and(|strategy| strategy == "priority") {
            aggregation.insert("conflictResolution".to_owned(), "prefix".into());
        }
    }

    pub(super) fn proxy(&mut self, proxy: &mut Block) {
        if let Some(Value::Array(names)) = proxy.get_mut("preconnectServers") {
            self.retain(names, "spec.config.proxy.preconnectServers", None);
        }
    }

    pub(super) fn operational(&mut self, operational: &mut Block) {
        let timeouts = operational.get_mut("timeouts").and_then(|timeouts| timeouts.get_mut("perWorkload"));
        if let Some(Value::Object(timeouts)) = timeouts {
            timeouts.retain(|name, _| {
                self.exists(name, || format!("spec.config.operational.timeouts.perWorkload.{name}"))
            });
        }
    }

    /// Keeps the items that name an existing backend, in themselves or in their member `key`.
    fn retain(&mut self, items: &mut Vec<Value>, path: &str, key: Option<&str>) {
        let mut index = 0;
        items.retain(|item| {
            let at = index;
            index += 1;
            let name = key.map_or(Some(item), |key| item.get(key)).and_then(Value::as_str);
            name.is_none_or(|name| self.exists(name, || format!("{path}[{at}]")))
        });
    }

    fn exists(&mut self, name: &str, path: impl Fn() -> String) -> bool {
        let exists = self.backends.contains(name);
        if !exists {
            let message = format!("no backend is named `{name}`; this has no effect until there is one");
            self.warnings.push(Problem::new(path(), message, "add the backend, or remove this"));
        }
        exists
    }
}
