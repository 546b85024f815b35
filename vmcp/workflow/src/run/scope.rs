//! Data that templates of a run see: `.params`, `.steps`, `.workflow` and, for an item, `.forEach`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use super::state::{State, StepEnd, StepState};
use crate::template::Data;

/// The data of a run, of which each part is converted once.
pub(super) struct Scope {
    id: String,
    begun: Duration,
    params: Data,
    steps: BTreeMap<Arc<str>, Data>,
}

/// Status of the run, for templates.
pub(super) struct Progress {
    pub(super) status: &'static str,
    pub(super) completed: usize,
    pub(super) elapsed: Duration,
}

impl Scope {
    pub(super) fn new(state: &State) -> Scope {
        let mut scope = Scope {
            id: state.id.clone(),
            begun: state.begun,
            params: Data::new(&Value::Object(state.params.clone())),
            steps: BTreeMap::new(),
        };
        for (id, step) in &state.steps {
            if let StepState::Ended(end) = step {
                scope.ended(id, end);
            }
        }
        scope
    }

    /// Adds a step that has ended.
    pub(super) fn ended(&mut self, id: &str, end: &StepEnd) {
        let mut step = json!({ "status": end.status.word(), "output": end.output, "content": end.content });
        if let (Some(step), Some(error)) = (step.as_object_mut(), &end.error) {
            step.insert("error".to_owned(), json!(error));
        }
        self.steps.insert(id.into(), Data::new(&step));
    }

    /// Returns the data of templates outside of a `forEach`.
    pub(super) fn data(&self, progress: &Progress) -> Data {
        self.with(progress, None)
    }

    /// Returns the data of templates of one item.
    pub(super) fn data_of_item(&self, progress: &Progress, name: &str, index: usize, item: &Value) -> Data {
        let mut each =
            Map::from_iter([("item".to_owned(), item.clone()), ("index".to_owned(), json!(index))]);
        each.insert(name.to_owned(), item.clone());
        self.with(progress, Some(Data::new(&Value::Object(each))))
    }

    fn with(&self, progress: &Progress, each: Option<Data>) -> Data {
        let begun = humantime::format_rfc3339_seconds(UNIX_EPOCH + self.begun).to_string();
        let workflow = json!({
            "id": self.id,
            "status": progress.status,
            "step_count": progress.completed,
            "duration_ms": progress.elapsed.as_millis() as u64,
            "start_time": begun,
        });
        let steps = self.steps.iter().map(|(id, step)| (Arc::clone(id), step.clone()));
        let parts = [
            ("params", self.params.clone()),
            ("steps", Data::of_parts(steps)),
            ("vars", Data::new(&json!({}))),
            ("workflow", Data::new(&workflow)),
        ];
        let parts = parts.into_iter().chain(each.map(|each| ("forEach", each)));
        Data::of_parts(parts.map(|(name, part)| (Arc::from(name), part)))
    }
}
