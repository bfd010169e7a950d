#!/usr/bin/env bash
# Runs every fuzz target of the module for a limited time.
#
#   .ci/fuzz.sh [SECONDS] [PACKAGE...]
#
# SECONDS is the time per target, 60 by default; PACKAGE limits the run (default ./...). A failing input is written to
# the package's testdata/fuzz. Commit it with the fix; every `go test` runs it again. Fuzzing starts from
# testdata/fuzz. Other interesting inputs are in the Go build cache ("go env GOCACHE"/fuzz); .ci/corpus.sh saves the
# inputs that reach new code. Minimising an input is limited to 200 runs, because the default of a minute would be
# most of the time of a target.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
if (($# > 0)); then shift; fi
packages=("$@")
if ((${#packages[@]} == 0)); then packages=(./...); fi

# Build only the files that declare a target, because building the others takes time.
mapfile -t directories < <(go list -f '{{.Dir}} {{join .TestGoFiles " "}} {{join .XTestGoFiles " "}}' "${packages[@]}" |
	while read -r dir files; do
		for f in $files; do
			if grep -q '^func Fuzz' "$dir/$f"; then
				echo "$dir"
				break
			fi
		done
	done)
if ((${#directories[@]} == 0)); then
	echo "fuzz: no target in ${packages[*]}" >&2
	exit 1
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# found_nothing reports whether a run failed only because its time was over: up to Go 1.26, a target sometimes reports
# the deadline of -fuzztime as an error (go.dev/issue/75804). A real failure names the input, or contains the panic.
found_nothing() {
	[[ $(grep -A1 '^--- FAIL: Fuzz' "$log" | tail -n 1) == '    context deadline exceeded' ]] &&
		! grep -q -e 'Failing input written' -e '^panic:' -e 'fuzzing process' -e 'failure while testing seed corpus' "$log"
}

failed=() ran=0
for dir in "${directories[@]}"; do
	# The list is a separate command, so that a package that does not build ends the run.
	targets=$(cd "$dir" && go test -list '^Fuzz' . | grep '^Fuzz')
	for target in $targets; do
		name="${dir#"$PWD"/}.$target"
		ran=$((ran + 1))
		if (cd "$dir" && go test -run '^$' -fuzz "^$target\$" -fuzztime "${seconds}s" -fuzzminimizetime 200x .) >"$log" 2>&1 || found_nothing; then
			echo "fuzz: $name for ${seconds}s: $(grep -o 'execs: .*' "$log" | tail -n 1)"
		else
			cat "$log"
			failed+=("$name")
		fi
	done
done
echo "fuzz: $ran targets, ${#failed[@]} failed"
if ((${#failed[@]} > 0)); then
	printf 'fuzz: failed: %s\n' "${failed[@]}" >&2
	exit 1
fi
