package report

import (
	"context"
	"slices"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/schema/notice"
	"github.com/pawlhq/pawl/schema/receipt"
)

// The times before the last secret expires at which a ticket and a page are sent.
const (
	endsSoon = 14 * 24 * time.Hour
	endsNow  = 24 * time.Hour
)

// SecretEnds returns when the last secret of each source expires. It omits sources with a secret that does not expire.
func SecretEnds(cfg *config.Config) map[string]time.Time {
	ends := map[string]time.Time{}
	for name, source := range cfg.Sources {
		for _, s := range source.Secrets {
			if s.NotAfter.After(ends[name]) {
				ends[name] = s.NotAfter
			}
		}
		endless := func(s config.Secret) bool { return s.NotAfter.IsZero() }
		if slices.ContainsFunc(source.Secrets, endless) {
			delete(ends, name)
		}
	}
	return ends
}

// secrets returns the sources with a last secret that expires soon.
func (c causes) secrets(context.Context) (list []notice.Cause, err error) {
	for name, at := range SecretEnds(c.cfg) {
		left := at.Sub(c.now)
		if left > endsSoon {
			continue
		}
		list = append(list, notice.Cause{
			Name: name, Severity: pages(left < endsNow, string(c.cfg.Sources[name].Mode)), Count: 1,
			What:    "the last secret of source " + name + " ends " + at.UTC().Format(minutes),
			Command: "sources", Runbook: "rotate-secret",
		})
	}
	return list, nil
}

// idle reports events that wait on a task queue without a worker. The cause unstarted covers an unavailable Temporal.
func (c causes) idle(ctx context.Context) ([]notice.Cause, error) {
	open, err := receipt.NewReader(c.DB).Waiting(ctx, nil)
	count, oldest := 0, 0.0
	for _, w := range open {
		if w.Status == receipt.Received || w.Status == receipt.Processing {
			count, oldest = count+w.Count, max(oldest, w.Seconds)
		}
	}
	waited := time.Duration(oldest * float64(time.Second))
	if err != nil || waited < idleSince {
		return nil, err
	}
	if worked, unanswered := worked(ctx, c.Operator); worked || unanswered != nil {
		return nil, nil
	}
	return []notice.Cause{{
		Name: c.TaskQueue, Severity: notice.Page, What: "no worker takes the events", Since: c.now.Add(-waited),
		Count: count, Command: "doctor", Runbook: "no-worker",
	}}, nil
}
