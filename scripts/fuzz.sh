#!/bin/bash
# Runs every fuzz target of the module for a while. Use: scripts/fuzz.sh [TIME PER TARGET, default 20s]
set -euo pipefail
cd "$(dirname "$0")/.."
time_per_target=${1:-20s}
targets=0
while IFS=: read -r file name; do
  echo "fuzz: $name in $(dirname "$file") for $time_per_target"
  go test "./$(dirname "$file")" -run '^$' -fuzz "^$name\$" -fuzztime "$time_per_target"
  targets=$((targets + 1))
done < <(git ls-files -co --exclude-standard -- '*_test.go' | sort |
  xargs -r grep -HoE '^func Fuzz[A-Za-z0-9_]*' | sed 's/:func /:/')
[ "$targets" -gt 0 ] || { echo 'fuzz: found no target' >&2; exit 1; }
echo "fuzz: $targets targets passed"
