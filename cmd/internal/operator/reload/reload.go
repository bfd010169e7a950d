// Package reload is the decision that processes load their configuration files again.
package reload

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema/reload"
)

// Reload implements `pawl reload`. The configuration files of the processes are on other machines, so the decision
// stores a request, and each process loads its own file within seconds.
var Reload = decide.Verb{
	Name: "reload", Target: "PROCESS", Needs: role.RightAdmin, Rule: reloadRule,
	Short: "Let processes load their configuration files again",
}

// Result is a request to load configuration files.
type Result struct {
	// Process is the kind of the processes: ingress, worker, console or all.
	Process string `json:"process"`
}

// processes lists the targets of the decision.
var processes = []string{"ingress", "worker", "console", reload.All}

var reloadRule = decide.Rule[Result, *Result]{
	Find: func(_ context.Context, d *decide.Decision) (Result, string, error) {
		if !slices.Contains(processes, d.Target) {
			return Result{}, "", decide.Invalidf("unknown process %q: write ingress, worker, console or all", d.Target)
		}
		return Result{d.Target}, "reload/" + d.Target, nil
	},
	Check: func(_ context.Context, d *decide.Decision, r Result) (*decide.Change, error) {
		return &decide.Change{
			Target: r.Process, After: map[string]any{"process": r.Process},
			Do: func(ctx context.Context, tx pgx.Tx) error { return reload.Request(ctx, tx, r.Process, d.Actor) },
		}, nil
	},
	Act: func(_ context.Context, _ *decide.Decision, r Result, _ decide.Recorded) (string, *Result, error) {
		return "each process loads its file within ten seconds; a process that refuses the file keeps its configuration, " +
			"and logs the reason", &r, nil
	},
}
