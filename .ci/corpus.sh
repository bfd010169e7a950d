#!/usr/bin/env bash
# Keep the results of fuzzing: an input in the Go build cache that reaches code which no seed of its target reaches is
# copied to the package's testdata/fuzz. Commit it. Every `go test` runs it, and fuzzing starts from it. Existing
# files stay.
#
#   .ci/corpus.sh [PACKAGE...]
#
# PACKAGE limits the run (default ./...). Shorter inputs come first.
set -euo pipefail
shopt -s nullglob
cd "$(dirname "$0")/.."
cache=$(go env GOCACHE)/fuzz
packages=("$@")
if ((${#packages[@]} == 0)); then packages=(./...); fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# reached RUN prints the blocks of pawl's code that the seeds and inputs with this name reach.
reached() {
	if ! "$work/test" -test.run "$1" -test.coverprofile "$work/profile" >"$work/log" 2>&1; then
		cat "$work/log" >&2
		return 1
	fi
	awk '$NF > 0 { print $1 }' "$work/profile" | sort -u
}

keep_corpus() { # of one package, in the current directory, for these targets
	local package=$1 target input kept
	shift
	go test -c -cover -coverpkg "$module/..." -o "$work/test" .
	for target in "$@"; do
		kept=0
		reached "^$target\$" >"$work/known"
		mkdir -p "testdata/fuzz/$target"
		while read -r input; do
			cp "$cache/$package/$target/$input" "testdata/fuzz/$target/"
			reached "^$target\$/^$input\$" >"$work/reached"
			if [[ -n $(comm -13 "$work/known" "$work/reached") ]]; then
				sort -u -o "$work/known" "$work/known" "$work/reached"
				kept=$((kept + 1))
			else
				rm "testdata/fuzz/$target/$input"
			fi
		done < <(cd "$cache/$package/$target" 2>/dev/null && ls -Sr)
		rmdir -p --ignore-fail-on-non-empty "testdata/fuzz/$target"
		echo "$package.$target: $kept new"
	done
}

module=$(go list -m)
while read -r package dir files; do
	targets=$(cd "$dir" && for f in $files; do sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$f"; done)
	# shellcheck disable=SC2086 # one word each
	[[ -z $targets ]] || (cd "$dir" && keep_corpus "$package" $targets)
done < <(go list -f '{{.ImportPath}} {{.Dir}} {{join .TestGoFiles " "}} {{join .XTestGoFiles " "}}' "${packages[@]}")
