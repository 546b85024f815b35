//! Tests of the engine by calls: its snapshots, learning, drift of definitions, audit and metrics.

mod audit;
mod learning_refresh;
mod reranking;
mod snapshots;
mod tool_drift;
mod tool_metrics;
mod vectors;
