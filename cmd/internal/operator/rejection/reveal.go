package rejection

import (
	"context"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema/rejection"
)

// Reveal shows a complete rejected request. Its result is a [*Shown]. Its embedded request includes the signatures,
// so that a person can verify it again.
var Reveal = decide.Verb{
	Name: "reveal-rejection", Target: "ID", Needs: role.RightReveal, Rule: revealRule,
	Short: "Show a complete refused request",
}

// revealRule writes the audit record before it reads the request.
var revealRule = decide.Rule[rejection.Rejection, *Shown]{
	Find: func(ctx context.Context, d *decide.Decision) (rejection.Rejection, string, error) {
		r, err := rejection.New(d.Operator.DB).Find(ctx, d.Target)
		return r, "rejection/" + d.Target, noRejection(d.Target, err)
	},
	Check: func(_ context.Context, d *decide.Decision, r rejection.Rejection) (*decide.Change, error) {
		return &decide.Change{Target: r.ID,
			Before: map[string]any{"rejection": r.ID, "source": r.Source, "bytes": r.BodySize, "kind": d.Kind}}, nil
	},
	Act: func(ctx context.Context, d *decide.Decision, r rejection.Rejection, _ decide.Recorded) (string, *Shown,
		error) {
		r, err := rejection.New(d.Operator.DB).Get(ctx, r.ID)
		if err != nil {
			return "", nil, noRejection(d.Target, err)
		}
		return "it is shown", revealed(d.Operator, r), nil
	},
}
