//! Viewers of events: their role, and the areas that they ask for.

use axum::http::HeaderMap;
use vmcp_engine::telemetry::server_events::EventArea;

use crate::port::admin::guard::{AdminGuard, bearer, is_one_of};

/// Query parameter that names areas.
const AREAS: &str = "areas";

/// Role of a viewer, which decides what it may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ViewerRole {
    /// A person who may use the admin port: sees every event.
    Operator,
    /// A program with one of `server.metricsTokens`: sees states of backends, which the metrics tell too.
    Scraper,
}

impl ViewerRole {
    /// Returns the role of a request under the configuration in force; `None`: a token is wanted.
    pub(super) fn of(guard: &AdminGuard, headers: &HeaderMap) -> Option<ViewerRole> {
        if guard.admits(headers) {
            return Some(ViewerRole::Operator);
        }
        let snapshot = guard.admin.0.engine.snapshot();
        let tokens = &snapshot.config.server.metrics_tokens;
        bearer(headers).filter(|token| is_one_of(token, tokens)).map(|_| ViewerRole::Scraper)
    }

    fn may_see(self, area: EventArea) -> bool {
        match self {
            ViewerRole::Operator => true,
            ViewerRole::Scraper => area == EventArea::Backends,
        }
    }
}

/// A viewer. Its headers hold a token, so that it has no `Debug`.
pub(super) struct Viewer {
    pub(super) role: ViewerRole,
    /// The areas that it asked for.
    pub(super) areas: Vec<EventArea>,
    /// Headers of its request, whose token is looked at again after a reload.
    pub(super) headers: HeaderMap,
}

impl Viewer {
    /// True if the viewer asked for events of an area and may see them.
    pub(super) fn sees(&self, area: EventArea) -> bool {
        self.role.may_see(area) && self.areas.contains(&area)
    }
}

/// Reads the areas of a query, `areas=hooks,backends`; without them, every area.
pub(super) fn areas(query: &str) -> Result<Vec<EventArea>, String> {
    let mut areas = Vec::new();
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        if name != AREAS {
            return Err(format!("unknown parameter `{name}`; the one that there is: {AREAS}"));
        }
        for wanted in value.split(',') {
            let area = EventArea::from_name(wanted)
                .ok_or_else(|| format!("{AREAS}: `{wanted}` is no area; use {}", known()))?;
            areas.push(area);
        }
    }
    if areas.is_empty() { Ok(EventArea::ALL.to_vec()) } else { Ok(areas) }
}

fn known() -> String {
    EventArea::ALL.map(EventArea::as_str).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_areas_and_nothing_else() {
        assert_eq!(areas("").unwrap(), EventArea::ALL);
        assert_eq!(areas("areas=tools,hooks").unwrap(), [EventArea::Tools, EventArea::Hooks]);
        assert_eq!(areas("areas=x").unwrap_err(), "areas: `x` is no area; use hooks, tools, backends");
        assert!(areas("area=tools").unwrap_err().contains("`area`"));
    }

    #[test]
    fn a_scraper_sees_states_alone_whatever_it_asks_for() {
        let viewer = |role, query| Viewer { role, areas: areas(query).unwrap(), headers: HeaderMap::new() };
        let seen = |viewer: &Viewer| EventArea::ALL.map(|area| viewer.sees(area));
        assert_eq!(seen(&viewer(ViewerRole::Operator, "")), [true, true, true]);
        assert_eq!(seen(&viewer(ViewerRole::Operator, "areas=hooks")), [true, false, false]);
        assert_eq!(seen(&viewer(ViewerRole::Scraper, "")), [false, false, true]);
        assert_eq!(seen(&viewer(ViewerRole::Scraper, "areas=hooks,tools")), [false, false, false]);
    }
}
