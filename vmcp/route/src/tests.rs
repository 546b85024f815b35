//! Tests of the engine by calls: its snapshots, learning, drift of definitions, audit and metrics.

mod audit;
mod learning_refresh;
mod own_resources;
mod reranking;
mod snapshots;
mod tool_drift;
mod tool_metrics;
mod vectors;
