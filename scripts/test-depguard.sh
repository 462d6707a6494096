#!/bin/bash
# Shows that the lint rules on imports can fail: plants forbidden imports in a temporary tree and expects
# a complaint for each; plants permitted ones and expects silence.
#
# The targets are empty packages, because a real one would close an import cycle and the linter would
# report only that.
set -euo pipefail
cd "$(dirname "$0")/.."
lint=$PWD/${1:?usage: test-depguard.sh path/to/golangci-lint}
module=$(awk '$1 == "module" { print $2; exit }' go.mod)
root=$PWD
tree=$(mktemp -d "${TMPDIR:-/tmp}/depguard.XXXXXX")
trap 'rm -rf "$tree"' EXIT

# stub DIR: an empty package, so that others can import it.
stub() {
  mkdir -p "$tree/$1"
  [ -e "$tree/$1/stub.go" ] || printf 'package %s\n' "$(basename "$1")" >"$tree/$1/stub.go"
}

# library PATH SUBDIR: an empty stand-in for a module from elsewhere.
library() {
  local dir=$tree/_lib/$1
  mkdir -p "$dir/$2"
  printf 'module %s\n\ngo 1.26.0\n' "$1" >"$dir/go.mod"
  printf 'package stub\n' >"$dir/$2/stub.go"
  printf 'require %s %s\nreplace %s => ./_lib/%s\n' "$1" "$3" "$1" "$1" >>"$tree/go.mod"
}

fresh_tree() {
  rm -rf "$tree" && mkdir -p "$tree"
  cp "$root/.golangci.yml" "$tree/"
  printf 'module %s\n\ngo 1.26.0\n' "$module" >"$tree/go.mod"
  library github.com/jackc/pgx/v5 . v5.0.0
  library github.com/nats-io/nats.go jetstream v1.0.0
  library github.com/pressly/goose/v3 . v3.0.0
}

# plant FROM TO: a file in package FROM that imports TO (a directory of this module, or a foreign import path).
plant() {
  local path=$2
  stub "$1"
  case $2 in
  std:*) path=${2#std:} ;;
  lib:*) path=${2#lib:} ;;
  *) stub "$2" && path=$module/$2 ;;
  esac
  printf 'package %s\n\nimport _ "%s"\n' "$(basename "$1")" "$path" >"$tree/$1/$(echo "to_$path" | tr -c 'a-z0-9\n' _)x.go"
}

run_lint() {
  (cd "$tree" && "$lint" run --enable-only depguard,forbidigo --output.text.print-issued-lines=false \
    --output.text.colors=false "$@" 2>&1) || true
}

failures=0
fail() { echo "depguard: $*" >&2; failures=$((failures + 1)); }

# forbidden: lines "FROM TO" on stdin; each must be reported. Within one call the arrows must not form a cycle.
forbidden() {
  local arrows report from to before=$failures
  fresh_tree
  arrows=$(cat)
  while read -r from to; do plant "$from" "$to"; done <<<"$arrows"
  report=$(run_lint ./...)
  while read -r from to; do
    case $to in std:* | lib:*) to=${to#*:} ;; *) to=$module/$to ;; esac
    grep -qE "^$from/to_[a-z0-9_]+\.go:.*import '$to' is not allowed.*\(depguard\)" <<<"$report" ||
      fail "$from → $to was not reported"
    checked=$((checked + 1))
  done <<<"$arrows"
  [ "$failures" -eq "$before" ] || printf 'the linter said:\n%s\n' "$report" >&2
}

# permitted: lines "FROM TO" on stdin; none may be reported.
permitted() {
  local arrows report from to
  fresh_tree
  arrows=$(cat)
  while read -r from to; do plant "$from" "$to"; checked=$((checked + 1)); done <<<"$arrows"
  report=$(run_lint ./...)
  [ "$report" = "0 issues." ] || fail "permitted imports were reported:"$'\n'"$report"
}
checked=0

# 1. The real core passes, and fails as soon as one file of it imports the coordinator or reads the clock.
fresh_tree
mkdir -p "$tree/saga"
find saga -maxdepth 1 -name '*.go' ! -name '*_test.go' -exec cp {} "$tree/saga/" \;
stub saga
report=$(run_lint ./saga/...)
[ "$report" = "0 issues." ] || fail "the core itself is reported:"$'\n'"$report"
plant saga coordinator
printf 'package saga\n\nimport "time"\n\nvar planted = time.Now()\n' >"$tree/saga/planted_clock.go"
report=$(run_lint ./saga/...)
grep -q "import '$module/coordinator' is not allowed.*(depguard)" <<<"$report" || fail "saga → coordinator was not reported:"$'\n'"$report"
grep -q "time.Now.*(forbidigo)" <<<"$report" || fail "time.Now in saga was not reported:"$'\n'"$report"
checked=$((checked + 2))

# 2. Upwards: no package calls back into what is built on it.
forbidden <<'ARROWS'
saga std:context
saga std:math/rand/v2
saga std:net
saga std:os
saga std:database/sql
saga lib:github.com/jackc/pgx/v5
saga saga/wire
saga outbox
saga dlq
saga participant
saga internal/pg
saga/wire outbox
saga/relay saga/wire
saga/flow saga/wire
saga/flow std:context
saga/relay outbox
saga/relay internal/bus
saga/relay std:context
saga/relay std:math/rand/v2
saga/wire internal/bus
saga/sagatest coordinator
internal/pg outbox
internal/bus coordinator
internal/fault internal/pg
internal/fault internal/fault/pgfault
internal/fault lib:github.com/jackc/pgx/v5
internal/fault/pgfault lib:github.com/nats-io/nats.go/jetstream
internal/fault/natsfault lib:github.com/jackc/pgx/v5
internal/fault/natsfault internal/bus
internal/testdb coordinator
migrations outbox
outbox dlq
outbox coordinator
outbox participant
dlq coordinator
dlq coordinator/api
coordinator coordinator/api
coordinator coordinator/console
coordinator coordinator/client
coordinator cmd/coordinator
coordinator coordinator/coordinatortest
participant coordinator
participant coordinator/client
participant internal/devcluster
ARROWS

# 3. Downwards and sideways: shortcuts past a layer, and libraries outside their one home.
forbidden <<'ARROWS'
coordinator participant
coordinator/api participant
coordinator/api coordinator/client
coordinator/api outbox
coordinator/api internal/pg
coordinator/console coordinator/api
coordinator/console lib:github.com/jackc/pgx/v5
coordinator/console std:database/sql
coordinator/client coordinator
coordinator/client dlq
coordinator/client internal/fault/pgfault
coordinator/client lib:github.com/jackc/pgx/v5
coordinator/coordinatortest participant
coordinator/coordinatortest outbox
coordinator/coordinatortest internal/testdb
coordinator/coordinatortest lib:github.com/jackc/pgx/v5
outbox saga
outbox saga/wire
outbox internal/fault/natsfault
participant saga/relay
participant dlq
participant outbox
internal/bank coordinator
internal/bank dlq
coordinator lib:github.com/nats-io/nats.go/jetstream
outbox lib:github.com/pressly/goose/v3
participant lib:github.com/pressly/goose/v3
dlq std:log
dlq std:math/rand
ARROWS

# 4. The arrows of the design are permitted.
permitted <<'ARROWS'
saga std:time
saga std:crypto/sha256
saga/wire saga
saga/sagatest saga
saga/sagatest saga/relay
saga/relay std:time
saga/flow saga
saga/sagatest saga/flow
coordinator saga/flow
outbox saga/relay
outbox internal/pg
outbox internal/bus
outbox internal/fault
outbox internal/lifecycle
dlq outbox
dlq saga
dlq internal/pg
internal/bus lib:github.com/nats-io/nats.go/jetstream
internal/bus internal/fault/natsfault
internal/pg internal/fault/pgfault
internal/fault/pgfault internal/fault
internal/fault/pgfault lib:github.com/jackc/pgx/v5
internal/fault/natsfault lib:github.com/nats-io/nats.go/jetstream
coordinator/client internal/fault
coordinator dlq
coordinator outbox
coordinator saga
coordinator saga/wire
coordinator internal/pg
coordinator lib:github.com/jackc/pgx/v5
coordinator/api coordinator
coordinator/console coordinator
coordinator/coordinatortest coordinator
coordinator/coordinatortest coordinator/api
coordinator/coordinatortest coordinator/client
coordinator/coordinatortest saga/wire
participant saga
participant saga/wire
participant internal/bus
participant lib:github.com/jackc/pgx/v5
participant/participanttest participant
internal/bank participant
internal/bank saga
cmd/coordinator coordinator
cmd/coordinator coordinator/api
cmd/coordinator internal/bank
cmd/coordinator lib:github.com/pressly/goose/v3
cmd/participant participant
ARROWS

[ "$failures" -eq 0 ] || exit 1
echo "depguard: $checked imports behave as designed"
