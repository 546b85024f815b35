//! Hints of a composite tool: what its author claims, and the floor that its steps set.

use serde_json::{Map, Value};

use crate::raw::RawHints;

/// Hints that the author of a composite tool gave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hints {
    /// Title for people.
    pub title: Option<String>,
    /// `readOnlyHint`.
    pub read_only: Option<bool>,
    /// `destructiveHint`.
    pub destructive: Option<bool>,
    /// `idempotentHint`.
    pub idempotent: Option<bool>,
    /// `openWorldHint`.
    pub open_world: Option<bool>,
}

/// Hints of one tool that a step calls. A hint that the tool does not give has the default of MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "MCP has these four hints")]
pub struct StepHints {
    /// True if the tool changes nothing.
    pub read_only: bool,
    /// True if its changes may destroy something.
    pub destructive: bool,
    /// True if a repeated call changes nothing more.
    pub idempotent: bool,
    /// True if it reaches beyond a closed set of things.
    pub open_world: bool,
}

impl StepHints {
    /// Applies MCP's defaults: a tool that says nothing may change and destroy things of an open world.
    pub fn new(
        read_only: Option<bool>,
        destructive: Option<bool>,
        idempotent: Option<bool>,
        open_world: Option<bool>,
    ) -> StepHints {
        let read_only = read_only == Some(true);
        StepHints {
            read_only,
            destructive: !read_only && destructive != Some(false),
            idempotent: read_only || idempotent == Some(true),
            open_world: open_world != Some(false),
        }
    }

    /// Returns the hints of all steps together: as dangerous as the most dangerous.
    pub fn floor(steps: impl IntoIterator<Item = StepHints>) -> StepHints {
        let nothing = StepHints { read_only: true, destructive: false, idempotent: true, open_world: false };
        steps.into_iter().fold(nothing, |floor, step| StepHints {
            read_only: floor.read_only && step.read_only,
            destructive: floor.destructive || step.destructive,
            // Two idempotent calls after one another need not be idempotent together, but each is named so.
            idempotent: floor.idempotent && step.idempotent,
            open_world: floor.open_world || step.open_world,
        })
    }
}

impl From<&RawHints> for Hints {
    fn from(raw: &RawHints) -> Hints {
        Hints {
            title: raw.title.clone(),
            read_only: raw.read_only_hint,
            destructive: raw.destructive_hint,
            idempotent: raw.idempotent_hint,
            open_world: raw.open_world_hint,
        }
    }
}

impl Hints {
    /// Returns MCP's `annotations`: the author's hints where they claim nothing safer than the floor. The
    /// error names the hints that do.
    pub fn above(&self, floor: &StepHints) -> Result<Map<String, Value>, Vec<&'static str>> {
        let mut safer = Vec::new();
        let mut check = |name, claimed: Option<bool>, floor: bool, safe: bool| {
            if claimed == Some(safe) && floor != safe {
                safer.push(name);
            }
            claimed.unwrap_or(floor)
        };
        let values = [
            ("readOnlyHint", check("readOnlyHint", self.read_only, floor.read_only, true)),
            ("destructiveHint", check("destructiveHint", self.destructive, floor.destructive, false)),
            ("idempotentHint", check("idempotentHint", self.idempotent, floor.idempotent, true)),
            ("openWorldHint", check("openWorldHint", self.open_world, floor.open_world, false)),
        ];
        if !safer.is_empty() {
            return Err(safer);
        }
        let title = self.title.iter().map(|title| ("title".to_owned(), Value::String(title.clone())));
        Ok(title.chain(values.map(|(name, value)| (name.to_owned(), Value::Bool(value)))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_as_dangerous_as_its_most_dangerous_step() {
        let reads = StepHints::new(Some(true), None, None, Some(false));
        let writes = StepHints::new(None, Some(false), Some(true), Some(false));
        let unknown = StepHints::new(None, None, None, None);
        let floor = StepHints::floor([reads, writes]);
        assert_eq!((floor.read_only, floor.destructive, floor.idempotent), (false, false, true));
        let floor = StepHints::floor([reads, unknown]);
        assert!(floor.destructive && floor.open_world && !floor.idempotent);
    }

    #[test]
    fn no_hint_may_claim_more_safety_than_the_steps_have() {
        let floor = StepHints::new(None, None, None, None);
        let claims = Hints { read_only: Some(true), destructive: Some(false), ..Hints::default() };
        assert_eq!(claims.above(&floor), Err(vec!["readOnlyHint", "destructiveHint"]));
        let careful = Hints { destructive: Some(true), title: Some("T".to_owned()), ..Hints::default() };
        let reads = StepHints::new(Some(true), None, None, Some(false));
        let hints = careful.above(&reads).unwrap();
        assert_eq!(hints["destructiveHint"], true);
        assert_eq!(hints["title"], "T");
        assert_eq!(hints["readOnlyHint"], true);
    }
}
