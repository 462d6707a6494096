#!/bin/bash
# Checks the project's own rules on every file that git knows or would add:
#
#   - each rule id that is cited (S2.4, B3, I-7, …) exists in docs/rules.md, once
#   - no to-do notes, no skipped tests
#   - no words of the machine it was written on
#   - no file above 1 MiB, no Go file above 700 lines
#
# With --uncited it lists the rule ids that no test cites, and exits 0.
set -euo pipefail
cd "$(dirname "$0")/.."

rules=docs/rules.md
bytes_max=$((1024 * 1024))
go_lines_max=700

failures=0
fail() { # fail TITLE LINES
  [ -n "$2" ] || return 0
  printf 'check-rules: %s\n' "$1" >&2
  sed 's/^/  /' <<<"$2" >&2
  failures=$((failures + 1))
}

files=$(git -c safe.directory="$PWD" ls-files -co --exclude-standard | while IFS= read -r f; do [ -f "$f" ] && printf '%s\n' "$f" || true; done)
[ "$(wc -l <<<"$files")" -ge 10 ] || { echo 'check-rules: found hardly any file; is this a clone?' >&2; exit 1; }
# Words of others: licence, checksums, recorded data.
texts=$(grep -vE '(^|/)(LICENSE|go\.sum)$|(^|/)testdata/|\.(png|svg|ico|gz)$' <<<"$files")
sources=$(grep -E '\.(go|md|sql|sh|py|ya?ml|json|html|js|proto)$|(^|/)(Makefile|Dockerfile)$' <<<"$texts")

# search PATTERN [FILES]: file:line:text of each match, or nothing.
search() { tr '\n' '\0' <<<"${2:-$texts}" | xargs -0 -r grep -HnIP -- "$1" || true; }

# Rule ids. A hyphen, dot, slash or letter before the id means that it is part of something else.
id='(?<![\w./-])(S[1-9](\.\d{1,2})?|I-\d{1,2}|[BCDEIMOPRTUX][1-9]\d?)(?![\w-]|\.\d)'
known=$(grep -oP '<a id="\K[A-Z][0-9.-]*(?=")' "$rules")
[ "$(wc -l <<<"$known")" -ge 100 ] || { echo "check-rules: $rules has hardly any anchor" >&2; exit 1; }
fail "anchors that occur twice in $rules" "$(sort <<<"$known" | uniq -d)"

if [ "${1:-}" = --uncited ]; then
  tests=$(grep -E '_test\.go$' <<<"$sources" || true)
  cited=$([ -z "$tests" ] || tr '\n' '\0' <<<"$tests" | xargs -0 grep -hoP -- "$id" | sort -u || true)
  grep -vxFf <(printf '%s\n' "$cited") <<<"$known" || true
  exit 0
fi

cited=$(tr '\n' '\0' <<<"$sources" | xargs -0 grep -HnoIP -- "$id" || true)
fail "rule ids that are not in $rules (an id-like word that is no citation needs another spelling)" \
  "$(awk -F: -v known="$known" 'BEGIN { n = split(known, k, "\n"); for (i = 1; i <= n; i++) ok[k[i]] = 1 }
     NF && !($3 in ok)' <<<"$cited")"
anchors=$(grep -oP '<a id="\K[^"]+' "$rules")
links=$(tr '\n' '\0' <<<"$texts" | xargs -0 grep -HnoIP -- 'rules\.md#\K[A-Za-z][\w.-]*[\w]|\]\(#\K[A-Z][\w.-]*' || true)
fail "links to anchors that are not in $rules" \
  "$(awk -F: -v known="$anchors" 'BEGIN { n = split(known, k, "\n"); for (i = 1; i <= n; i++) ok[k[i]] = 1 }
     NF && !($3 in ok)' <<<"$links")"

# [x] in a pattern keeps this file from matching itself.
fail 'to-do notes: file an issue instead' "$(search '\b(TO[D]O|FIX[M]E|XX[X])\b' "$texts")"
fail 'skipped tests: a test runs or does not exist' "$(search '\b(t|b|f|tb)\.(Skip|Skipf|SkipNow)\(' "$(grep '\.go$' <<<"$texts" || true)")"
fail 'words of the machine it was written on' \
  "$(search '(^|[^\w./-])/[w]ork/|\.\./[s]hared\b|\b(semantics|requirements|quality)[.]md\b|(?i)\bsub-?[a]gents?\b' "$(grep -v '^\.ci/' <<<"$texts")")"

fail "files above 1 MiB" "$(while IFS= read -r f; do
  size=$(stat -c %s "$f")
  [ "$size" -le "$bytes_max" ] || echo "$f: $size bytes"
done <<<"$files")"
fail "Go files above $go_lines_max lines" "$(while IFS= read -r f; do
  [ -n "$f" ] || continue
  lines=$(wc -l <"$f")
  [ "$lines" -le "$go_lines_max" ] || echo "$f: $lines lines"
done <<<"$(grep '\.go$' <<<"$files" || true)")"

[ "$failures" -eq 0 ] || exit 1
echo "check-rules: $(wc -l <<<"$files") files, $(wc -l <<<"$known") rules, $(grep -c . <<<"$cited" || true) citations: fine"
