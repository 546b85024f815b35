//! Tests of the engine by calls: its snapshots, learning, drift of definitions, query log, audit, metrics.

mod audit;
mod learning_refresh;
mod own_resources;
mod query_log;
mod reranking;
mod snapshots;
mod tool_drift;
mod tool_metrics;
mod vectors;
