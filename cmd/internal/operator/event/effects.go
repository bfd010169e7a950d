package event

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema/withheld"
)

// EffectsOn implements `pawl effects on`.
var EffectsOn = decide.Verb{
	Name: "effects-on", Command: "effects on", Target: "MODE", Needs: role.RightAdmin, Rule: effectsRule(true),
	Short: "Switch on the effects of a mode", Previews: true,
	Flags: []decide.Flag{{Name: "from", Usage: "execute effects of events since this `time` (default: now)",
		Value: func(a *decide.Args) *string { return &a.From }}},
	Long: `Switch on the effects of a mode, live or test. Events that occurred before --from change only state. Effects that
are already withheld stay withheld until you run pawl effects release. All processes apply the change at once.`,
}

// EffectsOff implements `pawl effects off`.
var EffectsOff = decide.Verb{
	Name: "effects-off", Command: "effects off", Target: "MODE", Needs: role.RightAdmin, Rule: effectsRule(false),
	Short: "Withhold the effects of all events of a mode", Previews: true,
	Long: `Withhold the effects of all events of a mode, live or test, from now on: e-mails, finance entries, workspaces, tasks,
internal events and deliveries to destinations. Events are stored and change state as before. Effects in progress
end. pawl status counts the withheld effects.`,
}

// EffectsResult is the start of the effects of a mode.
type EffectsResult struct {
	Mode string `json:"mode"`
	// From is null if effects are off.
	From *time.Time `json:"starts_at"`
}

// effectsRule returns the rule that switches the effects of a mode on or off.
func effectsRule(on bool) decide.Rule[EffectsResult, *EffectsResult] {
	return decide.Rule[EffectsResult, *EffectsResult]{
		Find: func(_ context.Context, d *decide.Decision) (is EffectsResult, key string, err error) {
			is.Mode = d.Target
			if is.Mode != "live" && is.Mode != "test" {
				return is, "", decide.Unknownf("unknown mode %q: write live or test", d.Target)
			}
			switch {
			case !on:
			case d.From == "":
				now := time.Now().UTC().Truncate(time.Second)
				is.From = &now
			default:
				at, err := time.Parse(time.RFC3339, d.From)
				if err != nil {
					return is, "", decide.Invalidf("from: %.40q is not a time: write 2026-12-01T00:00:00Z", d.From)
				}
				is.From = &at
			}
			return is, d.Verb + "/" + d.Target, nil
		},
		Check: func(ctx context.Context, d *decide.Decision, is EffectsResult) (*decide.Change, error) {
			all, err := withheld.All(ctx, d.Operator.DB)
			if err != nil {
				return nil, err
			}
			before := map[string]any{}
			for _, from := range all {
				if from.Mode != is.Mode {
					continue
				}
				if before["starts_at"] = from.At; from.At == nil && is.From == nil {
					return nil, d.Refuse("already has no effects: they have been off since %s",
						timeText(from.ChangedAt))
				}
			}
			return &decide.Change{
				Target: is.Mode, Before: before, After: map[string]any{"mode": is.Mode, "starts_at": is.From},
				Do: func(ctx context.Context, tx pgx.Tx) error {
					return withheld.Set(ctx, tx, is.Mode, is.From, d.Actor)
				},
			}, nil
		},
		Act: func(_ context.Context, _ *decide.Decision, _ EffectsResult, rec decide.Recorded) (string, *EffectsResult,
			error) {
			res := new(EffectsResult)
			if err := rec.Read(rec.After, res); err != nil {
				return "", nil, err
			}
			return res.says(), res, nil
		},
		Forecast: func(_ context.Context, _ *decide.Decision, is EffectsResult, made *decide.Preview) error {
			made.Message = is.says()
			return nil
		},
	}
}

func (r EffectsResult) says() string {
	if r.From == nil {
		return "effects of " + r.Mode + " events are off"
	}
	return fmt.Sprintf("%s events have effects if they occurred since %s", r.Mode, r.From.UTC().Format(time.RFC3339))
}
