//! The conditions of kinds without pods: `Valid`, and `Stalled` where a person has to act.

use super::Conditions;

/// Sets `Valid`, to `False` with reason and message of a mistake. Then `Stalled` is true besides, by which
/// kstatus (Flux, kpt) notices it: `Valid` is a word of ToolHive that kstatus does not know.
pub(crate) fn set_valid(conditions: &mut Conditions, message: &str, mistake: Option<(&str, String)>) {
    match mistake {
        None => conditions.set("Valid", true, "ConfigValid", message),
        Some((reason, mistake)) => {
            conditions.set("Valid", false, reason, mistake.clone());
            conditions.set("Stalled", true, reason, mistake);
        }
    }
}
