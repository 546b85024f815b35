//! `vmcp eval --compare`: recipes side by side over the same queries, with confidence intervals of their
//! differences, paired by query.

use serde::Serialize;
use vmcp_search::measures::Judgment;

use super::replay::{Change, change};
use super::report::{Measures, Report};
use crate::cli::console::output;

/// A recipe's name, and what it found.
pub(super) struct Recipe {
    pub(super) name: String,
    pub(super) report: Report,
}

/// The measures of all recipes. Scripts rely on the names.
#[derive(Debug, Serialize)]
pub(super) struct ComparedMeasures {
    recipes: Vec<RecipeMeasures>,
}

#[derive(Debug, Serialize)]
struct RecipeMeasures {
    recipe: String,
    #[serde(flatten)]
    measures: Measures,
    /// Differences from the first recipe; absent in the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<Changes>,
}

#[derive(Debug, Serialize)]
struct Changes {
    recall_at_8: Change,
    ndcg_at_10: Change,
}

/// Returns the measures of recipes; all but the first are compared with the first.
pub(super) fn measures(recipes: &[Recipe], tools: usize) -> ComparedMeasures {
    let changes = |at: usize, recipe: &Recipe| {
        let first = recipes.first().filter(|_| at > 0)?;
        let over = |measure: &dyn Fn(&Judgment) -> f64| change(&first.report, &recipe.report, measure);
        Some(Changes {
            recall_at_8: over(&|judgment| judgment.recall(8)),
            ndcg_at_10: over(&|judgment| judgment.ndcg(10)),
        })
    };
    let of = |(at, recipe): (usize, &Recipe)| RecipeMeasures {
        recipe: recipe.name.clone(),
        measures: recipe.report.measures(tools, 0),
        changes: changes(at, recipe),
    };
    ComparedMeasures { recipes: recipes.iter().enumerate().map(of).collect() }
}

/// Returns a table of the recipes.
pub(super) fn human_text(recipes: &[Recipe], tools: usize) -> String {
    let compared = measures(recipes, tools).recipes;
    let queries = recipes.first().map_or(0, |recipe| recipe.report.judgments.len());
    let rows = compared.iter().map(|recipe| {
        let changed = |of: &dyn Fn(&Changes) -> &Change| {
            recipe.changes.as_ref().map_or_else(String::new, |changes| of(changes).to_string())
        };
        [
            recipe.recipe.clone(),
            format!("{:.3}", recipe.measures.recall_at_8),
            changed(&|changes| &changes.recall_at_8),
            format!("{:.3}", recipe.measures.ndcg_at_10),
            changed(&|changes| &changes.ndcg_at_10),
            format!("{:.1} ms", recipe.measures.query_ms_p50),
        ]
    });
    let head = ["RECIPE", "RECALL@8", "CHANGE (95 %)", "NDCG@10", "CHANGE (95 %)", "QUERY P50"];
    format!(
        "{}\n\n{queries} queries, {tools} tools; changes against the first recipe",
        output::table(head, rows)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipes_are_compared_with_the_first_query_by_query() {
        let judged = |ranking: &[&str]| Judgment::new(ranking, &[vec!["needed"]]);
        let recipe = |name: &str, judgments: Vec<Judgment>| Recipe {
            name: name.to_owned(),
            report: Report { judgments, ..Report::default() },
        };
        let worse = vec![judged(&["needed"]), judged(&["other"]), judged(&["other"])];
        let better = vec![judged(&["needed"]), judged(&["needed"]), judged(&["needed"])];
        let recipes = [recipe("today", worse), recipe("new.yaml", better)];
        let compared = serde_json::to_value(measures(&recipes, 9)).unwrap();
        assert!(compared.pointer("/recipes/0/changes").is_none());
        let at = |path: &str| {
            compared.pointer(&format!("/recipes/1/changes/recall_at_8/{path}")).unwrap().as_f64().unwrap()
        };
        assert!((at("after") - at("before") - 2.0 / 3.0).abs() < 1e-9);
        assert!(at("low") < at("high") && at("high") <= 1.0);
        let text = human_text(&recipes, 9);
        assert!(text.contains("new.yaml") && text.contains("+0.667"), "{text}");
        assert!(text.contains("3 queries, 9 tools"), "{text}");
    }
}
