//! The Kubernetes resources of vmcp.
