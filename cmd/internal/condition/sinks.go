package condition

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/schema/breaker"
	"github.com/pawlhq/pawl/schema/notice"
	"github.com/pawlhq/pawl/schema/outbox"
	"github.com/pawlhq/pawl/schema/pause"
)

// These constants define how long each condition may last before people are notified.
const (
	downFor    = 2 * time.Minute
	untakenFor = 15 * time.Minute
	// unsentFor is how long sending a notification may take.
	unsentFor = time.Minute
)

// sink is the kind of condition that a sink is down: its breaker is open.
var sink = Kind{
	Name: Sink, Runbook: "sink-down",
	read: func(ctx context.Context, r Reader) (list []notice.Condition, err error) {
		breakers, err := breaker.New(r.DB).All(ctx)
		served := r.Config.Served()
		for _, b := range breakers {
			if !b.Open || !slices.ContainsFunc(served, func(s config.Served) bool { return s.Name == b.Sink }) {
				continue
			}
			severity := notice.Page
			if strings.HasPrefix(b.Sink, config.NotifyPrefix) || strings.HasSuffix(b.Sink, ":test") {
				severity = notice.Ticket
			}
			c := notice.Condition{
				Name: b.Sink, Severity: r.after(downFor, b.Since, severity), Since: b.Since,
				Message: titleOf(pause.Sink, b.Sink) + " is down: " + b.Reason, Command: "sinks",
				Detail: output.Plural(b.Probes, "probe"),
			}
			if b.Said != "" {
				c.Detail += fmt.Sprintf(", answer: %q", b.Said)
			}
			list = append(list, c)
		}
		return list, err
	},
	Alerts: []Alert{
		{
			Name: "PawlSinkDown", Severity: "page", For: "1m",
			Comment: "No event parks, and the alert resolves by itself. It is for the person who can restore the sink or replace a token.",
			Expr:    "max by (sink, reason) (pawl_sink_down_seconds) > 60",
			Summary: "{{ $labels.sink }} has been down for {{ $value | humanizeDuration }}: {{ $labels.reason }}",
			Cost:    "Every effect of this sink waits: the workspaces, entries or e-mails of all customers",
		},
	},
}

// paused is the kind of condition that a sink or a source is paused.
var paused = Kind{
	Name: Paused, Runbook: "pause",
	read: func(ctx context.Context, r Reader) (list []notice.Condition, err error) {
		pauses, err := pause.Now(ctx, r.DB)
		for _, p := range pauses {
			list = append(list, notice.Condition{
				Name: string(p.Kind) + ":" + p.Name, Severity: notice.Info, Since: p.Since,
				Message: titleOf(p.Kind, p.Name) + " is paused",
				Detail:  "by " + p.Actor + ": " + p.Reason,
				Command: operator.Verbs.Named("resume-"+string(p.Kind)).Command + " " + decide.ShellWord(p.Name) +
					" --reason REASON",
				Labels: map[string]string{"kind": string(p.Kind), "name": p.Name},
			})
		}
		return list, err
	},
	Alerts: []Alert{
		{
			Name: "PawlPaused", Severity: "ticket", For: "5m",
			Comment: "A person paused it and may have forgotten it.",
			Expr:    "max by (kind, name) (pawl_paused_seconds) > 86400",
			Summary: "{{ $labels.kind }} {{ $labels.name }} has been paused for {{ $value | humanizeDuration }}",
			Cost:    "All effects or runs behind the pause wait",
		},
	},
}

// titleOf returns the kind and the name of a sink, a destination or a source, for example "sink mailer".
func titleOf(kind pause.Kind, name string) string {
	if destination, is := strings.CutPrefix(name, config.DestinationPrefix); is {
		return "destination " + destination
	}
	return string(kind) + " " + name
}

// destination is the kind of condition that a destination does not accept published events.
var destination = Kind{
	Name: "destination", Runbook: "failing-destination",
	read: func(ctx context.Context, r Reader) (list []notice.Condition, err error) {
		refused, err := outbox.New(r.DB).Refused(ctx) // sorted, oldest first
		for _, u := range refused {
			name, answer, _ := strings.Cut(strings.TrimPrefix(u.Error, "destination "), ": ")
			i := slices.IndexFunc(list, func(c notice.Condition) bool { return c.Name == name })
			if i >= 0 { // a second error of the same destination
				list[i].Count += u.Events
				continue
			}
			list = append(list, notice.Condition{
				Name: name, Severity: r.after(untakenFor, u.Since, notice.Ticket), Since: u.Since, Count: u.Events,
				Message: "destination " + name + " does not accept events",
				Detail:  output.Plural(u.Attempts, "attempt") + ", the last error: " + answer, Command: "sinks check",
			})
		}
		return list, err
	},
	Alerts: []Alert{
		{
			Name: "PawlOutboxStuck", Severity: "ticket", For: "5m",
			Comment: "By age, not by number: under load, some events are always in progress.",
			Expr:    "max(pawl_outbox_oldest_seconds) > 900",
			Summary: "An internal event has waited {{ $value | humanizeDuration }} for a destination",
			Cost:    "Destinations act on outdated state",
		},
	},
}

// unsent is the kind of condition that a notification sink does not accept messages.
var unsent = Kind{
	Name: "unsent", Runbook: "notifications",
	read: func(ctx context.Context, r Reader) (list []notice.Condition, err error) {
		waiting, err := notice.New(r.DB).Unsent(ctx, unsentFor)
		for _, u := range waiting {
			list = append(list, notice.Condition{
				Name: u.Sink, Severity: notice.Info, Since: u.Since, Count: u.Messages,
				Message: output.Plural(u.Messages, "notification") + " not accepted by " + u.Sink, Detail: u.Error,
				Command: "sinks check",
			})
		}
		return list, err
	},
}
