package token

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/token"
)

// Revoke implements `pawl tokens revoke`.
var Revoke = decide.Verb{
	Name: "revoke-token", Command: "tokens revoke", Target: "NAME", Needs: role.RightAdmin,
	Short: "Revoke an API token", Rule: revokeRule,
	Long: `Revoke an API token. A process that has verified it within the last five seconds still accepts it for that long.
Decisions that were made with it stay.`,
}

var revokeRule = decide.Rule[token.Token, *Result]{
	Find: func(ctx context.Context, d *decide.Decision) (token.Token, string, error) {
		t, err := token.Get(ctx, d.Operator.DB, d.Target)
		if errors.Is(err, schema.ErrNotFound) {
			err = decide.Unknownf("no token %q: pawl tokens list shows all tokens", d.Target)
		}
		return t, "token/" + d.Target, err
	},
	Check: func(_ context.Context, d *decide.Decision, t token.Token) (*decide.Change, error) {
		revoked := d.Refuse("is already revoked")
		if t.RevokedAt != nil {
			return nil, revoked
		}
		return &decide.Change{
			Target: t.Name, Before: map[string]any{"role": t.Role, "used_at": t.UsedAt},
			After: map[string]any{"revoked": true},
			Do: func(ctx context.Context, tx pgx.Tx) error {
				ended, err := token.Revoke(ctx, tx, t.Name)
				if err == nil && !ended {
					err = revoked
				}
				return err
			},
		}, nil
	},
	Act: func(_ context.Context, _ *decide.Decision, t token.Token, _ decide.Recorded) (string, *Result, error) {
		return "pawl no longer accepts it", &Result{Name: t.Name}, nil
	},
}
