package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/schema/withheld"
	"github.com/pawlhq/pawl/workflows"
)

// The verbs about effects that are withheld.
const (
	VerbRelease    = "release-effects"
	VerbEffectsOn  = "effects-on"
	VerbEffectsOff = "effects-off"
)

// effectVerbs returns the verbs that switch the effects of a mode on and off and release withheld effects.
func effectVerbs() []Verb {
	return []Verb{
		{
			Name: VerbEffectsOn, Command: "effects on", Target: "MODE", Needs: role.RightAdmin, rule: effectsRule,
			Short: "Have the events of a mode cause effects, from now on", Previews: true,
			Flags: []Flag{{Name: "from", Usage: "have effects of events since this `time` (default: now)",
				Value: func(a *Args) *string { return &a.From }}},
			Long: `Have the events of a mode, live or test, cause effects. Events that occurred before --from go on changing state alone.
The effects that were withheld until now stay withheld: pawl effects release does them. All processes go by the time at
once.`,
		},
		{
			Name: VerbEffectsOff, Command: "effects off", Target: "MODE", Needs: role.RightAdmin, rule: effectsRule,
			Short: "Withhold the effects of all events of a mode", Previews: true,
			Long: `Withhold the effects of all events of a mode, live or test, from now on: e-mails, finance entries, workspaces, tasks,
internal events and deliveries to consumers. Events are taken and change state as before. Effects that are under way
end. pawl status counts the withheld effects.`,
		},
		{
			Name: VerbRelease, Command: "effects release", Target: "ID", rule: releaseRule, Previews: true,
			Short: "Do the effects that were withheld of an event, or of many",
			Many:  []string{string(receipt.Processed)}, Reason: workflows.CodeBeforeEffects,
			Long: `Do the effects that were withheld of an event, because it occurred before effects began. The event runs again: each effect
is done once, by its ledger key, also if another event has done it since. Its internal events are
published, and its tasks are opened unless they are settled by now.

In place of ID, --status processed and other filters choose many. --dry-run lists them, with the effects by kind and
their money.`,
		},
	}
}

// EffectsResult is the start of the effects of a mode.
type EffectsResult struct {
	Mode string `json:"mode"`
	// From is nil if effects are off.
	From *time.Time `json:"from"`
}

// effectsRule changes the start of the effects of a mode.
var effectsRule = rule[EffectsResult, *EffectsResult]{
	find: func(_ context.Context, d *Decision) (is EffectsResult, key string, err error) {
		is.Mode = d.Target
		if is.Mode != "live" && is.Mode != "test" {
			return is, "", unknown("there is no mode %q: write live or test", d.Target)
		}
		switch {
		case d.Verb == VerbEffectsOff:
		case d.From == "":
			now := time.Now().UTC().Truncate(time.Second)
			is.From = &now
		default:
			at, err := time.Parse(time.RFC3339, d.From)
			if err != nil {
				return is, "", invalid("from: %.40q is not a time: write 2026-12-01T00:00:00Z", d.From)
			}
			is.From = &at
		}
		return is, d.Verb + "/" + d.Target, nil
	},
	check: func(ctx context.Context, d *Decision, is EffectsResult) (*change, error) {
		all, err := withheld.All(ctx, d.o.DB)
		if err != nil {
			return nil, err
		}
		before := map[string]any{}
		for _, from := range all {
			if from.Mode != is.Mode {
				continue
			}
			if before["from"] = from.At; from.At == nil && is.From == nil {
				return nil, d.refuse("has no effects already: they are off since %s", timeText(from.ChangedAt))
			}
		}
		return &change{
			target: is.Mode, before: before, after: map[string]any{"mode": is.Mode, "from": is.From},
			do: func(ctx context.Context, tx pgx.Tx) error {
				return withheld.Set(ctx, tx, is.Mode, is.From, d.Who)
			},
		}, nil
	},
	answer: func(_ context.Context, _ *Decision, _ EffectsResult, rec recorded) (string, *EffectsResult, error) {
		res := new(EffectsResult)
		if err := rec.read(rec.After, res); err != nil {
			return "", nil, err
		}
		return res.says(), res, nil
	},
	forecast: func(_ context.Context, _ *Decision, is EffectsResult, made *Preview) error {
		made.Says = is.says()
		return nil
	},
}

func (r EffectsResult) says() string {
	if r.From == nil {
		return "effects of " + r.Mode + " events are off"
	}
	return fmt.Sprintf("%s events have effects if they occurred since %s", r.Mode, r.From.UTC().Format(time.RFC3339))
}

// releaseRule runs an event again with the effects that were withheld.
var releaseRule = rule[*timeline.Receipt, *EventResult]{
	find: findEvent, answer: answerEvent, forecast: forecastEvent,
	check: func(ctx context.Context, d *Decision, r *timeline.Receipt) (*change, error) {
		n, err := withheld.Count(ctx, d.o.DB, r.ID)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, d.refuseEvent(r, "has no effects that are withheld")
		}
		c, err := checkReplay(ctx, d, r)
		if err != nil {
			return nil, err
		}
		c.after["released"] = n
		replay := c.do
		c.do = func(ctx context.Context, tx pgx.Tx) error {
			if err := replay(ctx, tx); err != nil {
				return err
			}
			return billing.Release(ctx, tx, r.Mode, r.ID)
		}
		return c, nil
	},
}
