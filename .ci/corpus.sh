#!/usr/bin/env bash
# Saves the results of fuzzing: if an input in the Go build cache reaches code that no seed of its target reaches, the
# script copies the input to the package's testdata/fuzz. Commit the copied files. Every `go test` runs these inputs,
# and fuzzing starts with them. Existing files are not changed.
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
