#!/bin/bash
# Runs a command and fails if it leaves something behind: scripts/check-clean.sh make test
#
# Compared before and after are, on the whole machine (so let nothing else work on it meanwhile):
#
#   - processes named postgres, nats-server, coordinator, participant or *.test, by id
#   - entries of the temporary directories that the project's programs and tests make
#   - git status
#
# Not compared: go-build*, the go command's own scratch directories, which it removes itself and leaves behind
# when it is killed; and the build and module caches, which are there to stay.
# The exit code is the command's, or 1 if that is 0 and something differs.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || { echo 'usage: scripts/check-clean.sh COMMAND [ARGUMENT…]' >&2; exit 2; }

settle_seconds=15 # how long orphans may take to end: PostgreSQL writes a checkpoint first

processes() {
  for dir in /proc/[0-9]*; do
    name=$(cat "$dir/comm" 2>/dev/null) || continue
    case $name in
      postgres | nats-server | coordinator | participant | *.test) ;;
      *) continue ;;
    esac
    read -r _ _ state parent _ 2>/dev/null <"$dir/stat" || continue
    [ "$state" != Z ] || continue # it has ended; its parent has not asked yet
    [ "$parent" != "$$" ] || continue
    # Workers of a PostgreSQL that was there before come and go: only the parents of all count.
    [ "$name" != postgres ] || [ "$(cat "/proc/$parent/comm" 2>/dev/null)" != postgres ] || continue
    printf 'process %s: %s\n' "${dir#/proc/}" "$(tr '\0' ' ' <"$dir/cmdline" 2>/dev/null | cut -c1-160)"
  done
}

scratch() {
  for dir in $(printf '%s\n' /tmp "${TMPDIR:-/tmp}" | sort -u); do
    find "$dir" -mindepth 1 -maxdepth 1 \
      \( -name 'sagacity-*' -o -name 'sg[0-9]*' -o -name 'devcluster-test-*' -o -name 'pgproxy*' \
      -o -name 'Test*' -o -name 'Example*' -o -name 'Benchmark*' -o -name 'Fuzz*' \) -printf 'file %p\n'
  done
}

state() {
  processes | sort
  scratch | sort
  git -c safe.directory="$PWD" status --porcelain | sed 's/^/git /'
}

before=$(state)
code=0
"$@" || code=$?
for ((i = 0; ; i++)); do
  after=$(state)
  [ "$before" != "$after" ] && [ "$i" -lt "$settle_seconds" ] || break
  sleep 1
done
if [ "$before" != "$after" ]; then
  echo "check-clean: not as before: $*" >&2
  diff <(printf '%s\n' "$before") <(printf '%s\n' "$after") | grep '^[<>]' | sed 's/^</  gone: /; s/^>/  new:  /' >&2
  exit $((code > 0 ? code : 1))
fi
echo "check-clean: as before: $*"
exit "$code"
