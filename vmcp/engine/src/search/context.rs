//! Contexts: the task that a client is busy with, in its own words (set_context), and what its use of tools
//! then teaches.
//!
//! [`Contexts`] keeps them, bounded, by session or by handle. [`Learner`] observes calls and hands each use
//! of a tool within a context to a thread that keeps the learned pairs in `state.db`. The arithmetic is
//! [`vmcp_search::learning`]; the engine chooses the tools of a context.

pub(crate) mod contexts;
pub(crate) mod learner;

use vmcp_search::learning::LearningMode;

pub use contexts::{Context, Contexts, QueryEmbedding};
pub use learner::Learner;

use crate::telemetry::tool_metrics::ToolKey;

/// Returns the configured way to learn, as the arithmetic knows it.
pub fn learning_mode(configured: vmcp_config::LearningMode) -> LearningMode {
    match configured {
        vmcp_config::LearningMode::Promote => LearningMode::Promote,
        vmcp_config::LearningMode::Seed => LearningMode::Seed,
    }
}

/// All pairs that were learned.
pub type Learned = vmcp_search::learning::Learned<ToolKey>;
