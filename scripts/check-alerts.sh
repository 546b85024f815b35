#!/usr/bin/env bash
# Checks the alerts of the chart with promtool, and runs their tests; where there is no promtool, they are skipped, and that is said.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if ! found=$(scripts/prometheus.sh 2>&1); then
  echo "check-alerts: $found" >>"${VMCP_SKIPPED:-/dev/stderr}"
  exit
fi
"$found/promtool" check rules charts/vmcp-operator/alerts/vmcp.yaml >/dev/null
"$found/promtool" test rules charts/vmcp-operator/alerts/vmcp.test.yaml >/dev/null
