//! The webhooks as configured; see [`vmcp_access::policy::decision_point::webhooks`] for how they are asked.

use std::sync::Arc;

use vmcp_access::policy::decision_point::webhooks::Webhook;
use vmcp_config::Config;

/// The services that are asked about calls of tools, in the order in which they are asked.
#[derive(Debug, Default)]
pub struct CallWebhooks {
    /// May change the arguments of a call.
    pub mutating: Vec<Arc<Webhook>>,
    /// May deny a call.
    pub validating: Vec<Arc<Webhook>>,
    /// May replace or withhold the result of a call.
    pub post: Vec<Arc<Webhook>>,
}

/// Returns the webhooks of a configuration: those `before`, with their connections, that are asked alike.
pub(crate) fn webhooks(before: &CallWebhooks, config: &Config) -> CallWebhooks {
    let kind = |before: &[Arc<Webhook>], wanted: &[Arc<vmcp_config::Webhook>]| {
        let one = |wanted: &Arc<vmcp_config::Webhook>| {
            let same = before.iter().find(|before| before.settings() == wanted);
            same.map_or_else(|| Arc::new(Webhook::new(Arc::clone(wanted))), Arc::clone)
        };
        wanted.iter().map(one).collect()
    };
    CallWebhooks {
        mutating: kind(&before.mutating, &config.webhooks.mutating),
        validating: kind(&before.validating, &config.webhooks.validating),
        post: kind(&before.post, &config.webhooks.post),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::config;

    #[test]
    fn a_reload_keeps_a_webhook_that_is_asked_alike() {
        let with = |url: &str| {
            config(&format!(
                "webhooks: {{ post: [{{ name: a, url: 'https://a/' }}, {{ name: b, url: '{url}' }}] }}"
            ))
        };
        let first = webhooks(&CallWebhooks::default(), &with("https://b/"));
        let second = webhooks(&first, &with("https://c/"));
        assert!(Arc::ptr_eq(&first.post[0], &second.post[0]));
        assert!(!Arc::ptr_eq(&first.post[1], &second.post[1]));
        assert!(webhooks(&second, &config("")).post.is_empty());
    }
}
