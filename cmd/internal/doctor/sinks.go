package doctor

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/schema/breaker"
	"github.com/pawlhq/pawl/schema/pause"
)

// sinks reports the state and the credentials of each sink, and the paused sources.
func (d *Doctor) sinks(ctx context.Context, f *findings) error {
	breakers, err := breaker.New(d.Pool).All(ctx)
	if err != nil {
		return err
	}
	pauses, err := pause.Now(ctx, d.Pool)
	if err != nil {
		return err
	}
	served := d.Config.Served()
	for i, s := range report.Sinks(served, breakers, pauses, nil) {
		switch s.State {
		case "paused":
			resume := "pawl resume " + report.Resumable(pause.Sink, s.Name) + " --why REASON"
			fix := "its effects wait until you run `" + resume + "`"
			f.add(Warn, s.Name, fix, "%s", s.Reason)
		case "out":
			f.add(Warn, s.Name, "bring it back, or mend its token and restart the workers; what waits for it goes on by itself (`pawl sinks` and `pawl sinks check` tell more)",
				"out since %s, after %s: %s", s.Since.UTC().Format(time.RFC3339), output.Plural(s.Probes, "probe"),
				s.Reason)
		default:
			f.add(OK, s.Name, "", "in; %s", served[i].Credentials)
		}
	}
	for _, p := range pauses {
		if p.Kind == pause.Source {
			resume := "pawl resume " + report.Resumable(p.Kind, p.Name) + " --why REASON"
			fix := "its events are stored and wait until you run `" + resume + "`"
			f.list = append(f.list, Finding{"sources", p.Name, Warn, p.Words(), fix})
		}
	}
	if len(served) == 0 {
		f.add(Warn, "configured", "write sinks, or consumers and relay, where that is not meant",
			"none is configured: no effect leaves pawl's database")
	}
	return nil
}
