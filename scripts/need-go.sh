#!/usr/bin/env bash
# Fails, and says what to do, where the control plane of the tests can neither be built nor is named by KUBEBUILDER_ASSETS.
[ -n "${KUBEBUILDER_ASSETS:-}" ] && exit
if ! command -v go >/dev/null; then
  echo "missing: go, 1.24 or newer (go.dev/dl), which builds the control plane of the tests; or set KUBEBUILDER_ASSETS to a folder with etcd and kube-apiserver" >&2
  exit 1
fi
