//! Settings about backends that are not there.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::fields::yaml_block::Block;
use crate::problem::Problem;

/// Leaves them out. Blocks are those of `vmcp.yaml`; what has another shape than it should have is left to its validator.
pub(super) struct MissingBackends<'a> {
    pub backends: BTreeSet<&'a str>,
    pub warnings: &'a mut Vec<Problem>,
}

impl MissingBackends<'_> {
    pub fn aggregation(&mut self, aggregation: &mut Block) {
        const PATH: &str = "spec.config.aggregation";
        if let Some(Value::Array(tools)) = aggregation.get_mut("tools") {
            self.retain(tools, &format!("{PATH}.tools"), Some("workload"));
        }
        let path = format!("{PATH}.conflictResolutionConfig.priorityOrder");
        let nobody = {
            let config = aggregation.get_mut("conflictResolutionConfig").and_then(Value::as_object_mut);
            let order =
                config.and_then(|config| config.get_mut("priorityOrder")).and_then(Value::as_array_mut);
            order.is_some_and(|order| {
                let given = !order.is_empty();
                self.retain(order, &path, None);
                given && order.is_empty()
            })
        };
        // Whoever is not in the order has a prefix.
        if nobody && aggregation.get("conflictResolution").is_some_and(|strategy| strategy == "priority") {
            aggregation.insert("conflictResolution".to_owned(), "prefix".into());
        }
    }

    pub fn proxy(&mut self, proxy: &mut Block) {
        if let Some(Value::Array(names)) = proxy.get_mut("preconnectServers") {
            self.retain(names, "spec.config.proxy.preconnectServers", None);
        }
    }

    pub fn operational(&mut self, operational: &mut Block) {
        let timeouts = operational.get_mut("timeouts").and_then(|timeouts| timeouts.get_mut("perWorkload"));
        if let Some(Value::Object(timeouts)) = timeouts {
            timeouts.retain(|name, _| {
                self.is_there(name, || format!("spec.config.operational.timeouts.perWorkload.{name}"))
            });
        }
    }

    /// Keeps the items that name a backend that is there, in themselves or in `key`.
    fn retain(&mut self, items: &mut Vec<Value>, path: &str, key: Option<&str>) {
        let mut index = 0;
        items.retain(|item| {
            let at = index;
            index += 1;
            let name = key.map_or(Some(item), |key| item.get(key)).and_then(Value::as_str);
            name.is_none_or(|name| self.is_there(name, || format!("{path}[{at}]")))
        });
    }

    fn is_there(&mut self, name: &str, path: impl Fn() -> String) -> bool {
        let is_there = self.backends.contains(name);
        if !is_there {
            let message = format!("no backend is named `{name}`; this has no effect until there is one");
            self.warnings.push(Problem::new(path(), message, "add the backend, or remove this"));
        }
        is_there
    }
}
