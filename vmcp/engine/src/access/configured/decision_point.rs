//! The decision point as configured; see [`vmcp_access::policy::decision_point`] for how it is asked.

use std::sync::Arc;

use vmcp_access::policy::decision_point::DecisionPoint;
use vmcp_config::Config;

/// Returns the decision point of a configuration: the one `before`, with its answers, if it is asked alike.
pub(crate) fn decision_point(
    before: Option<&Arc<DecisionPoint>>,
    config: &Config,
) -> Option<Arc<DecisionPoint>> {
    let wanted = config.decision_point.as_ref()?;
    let same = before.filter(|before| before.settings() == wanted);
    Some(same.map_or_else(|| Arc::new(DecisionPoint::new(Arc::clone(wanted))), Arc::clone))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::config;

    #[test]
    fn a_reload_keeps_a_decision_point_that_is_asked_alike() {
        let at = |url: &str| config(&format!("incomingAuth: {{ decisionPoint: {{ url: '{url}' }} }}"));
        let first = decision_point(None, &at("https://a.example/")).unwrap();
        let same = decision_point(Some(&first), &at("https://a.example/")).unwrap();
        assert!(Arc::ptr_eq(&first, &same));
        let other = decision_point(Some(&first), &at("https://b.example/")).unwrap();
        assert!(!Arc::ptr_eq(&first, &other));
        assert!(decision_point(Some(&first), &config("")).is_none());
    }
}
