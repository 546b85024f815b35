//! Learning from use: how reliable tools are, and pairs of a query and the tool that was used for it. Pure
//! arithmetic, without clock and database.
//!
//! [`Reliability`] ranks tools by the success of their calls. [`Learned`] holds the pairs and finds the
//! nearest to a new query. [`merge`] ranks tools by their own texts and by the pairs together; [`Signal`]
//! says how much one use teaches.
//!
//! ```
//! use vmcp_search::learning::{AskedQuery, Learned, LearnedPair, LearningMode, Signal, confidence_after};
//!
//! let mut learned = Learned::default();
//! learned.upsert(LearnedPair {
//!     id: "query→file_read".to_owned(),
//!     model: "model".into(),
//!     vector: [0.0, 0.05, 0.0, 0.95].into(),
//!     tool: "file_read",
//!     owner: None,
//!     confidence: confidence_after(None, Signal::Searched, LearningMode::Promote),
//!     last_used: 0,
//!     corrects: true,
//! });
//! let asked = AskedQuery { model: "model", vector: &[0.0, 1.0, 0.0, 19.0], owner: None };
//! let nearest = learned.nearest(&asked, 10);
//! assert!(nearest[0].0 > 0.999 && nearest[0].1.tool == "file_read");
//! ```

mod learned;
mod promotion;
mod recollection;
mod reliability;
mod signal;
mod two_tiers;

pub use learned::{AskedQuery, Learned, LearnedPair, Pruning};
pub use promotion::PLACES as PROMOTION_PLACES;
pub use recollection::{BONUS_MIN_SIMILARITY, DEFAULT_LEARNED_WEIGHT, Recollection};
pub use reliability::{DEFAULT_RELIABILITY_WEIGHT, Reliability};
pub use signal::{LearningMode, Signal, confidence_after};
pub use two_tiers::{TierWeights, merge};

pub(crate) use promotion::promote;
pub(crate) use recollection::bonus;
