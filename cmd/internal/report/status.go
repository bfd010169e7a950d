package report

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/condition"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/notice"
	"github.com/pawlhq/pawl/schema/pending"
	"github.com/pawlhq/pawl/schema/retention"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/schema/withheld"
)

// Status summarizes the current problems and the work in progress.
type Status struct {
	// Conditions lists the current problems, most severe first.
	Conditions []Condition `json:"conditions"`
	*timeline.Backlog
	Sinks []Sink `json:"sinks"`
	// Pending lists the decisions that wait for a second person.
	Pending []pending.Decision `json:"pending"`
	// Effects is the start of effects by mode. Withheld counts the effects that are withheld.
	Effects  []withheld.From `json:"effects"`
	Withheld []withheld.Sum  `json:"withheld"`
	// Jobs lists the jobs that run or are paused.
	Jobs []job.Job `json:"jobs"`
	// Database is the size and the growth of the database, and the last run of retention. It is null before the first
	// run.
	Database *retention.State `json:"database"`
}

// Condition is a current problem.
type Condition struct {
	notice.Condition
	// NotifiedAt is when people were last notified of the problem. It is null if no one was notified.
	NotifiedAt *time.Time `json:"notified_at"`
}

// ReadStatus returns the current status.
func ReadStatus(ctx context.Context, cfg *config.Config, o *decide.Operator) (*Status, error) {
	r := new(Status)
	var err error
	if r.Conditions, err = Conditions(ctx, cfg, o); err != nil {
		return nil, err
	}
	if r.Backlog, err = timeline.ReadBacklog(ctx, o.DB); err != nil {
		return nil, err
	}
	if r.Sinks, err = ReadSinks(ctx, cfg, o.DB); err != nil {
		return nil, err
	}
	if r.Pending, err = pending.List(ctx, o.DB); err != nil {
		return nil, err
	}
	if r.Effects, err = withheld.All(ctx, o.DB); err != nil {
		return nil, err
	}
	if r.Withheld, err = withheld.Sums(ctx, o.DB); err != nil {
		return nil, err
	}
	if r.Jobs, err = job.New(o.DB).Open(ctx); err != nil {
		return nil, err
	}
	r.Database, err = retention.ReadState(ctx, o.DB, int64(cfg.Retention.Disk))
	return r, err
}

// OnlyMode keeps the problems, the decisions and the withheld effects of one mode. A problem without a mode belongs to
// live mode. It returns the number of problems in the other mode.
func (r *Status) OnlyMode(test bool) (other int) {
	all := len(r.Conditions)
	r.Conditions = slices.DeleteFunc(r.Conditions, func(c Condition) bool { return isTest(c) != test })
	r.Withheld = slices.DeleteFunc(r.Withheld, func(s withheld.Sum) bool { return (s.Mode == testMode) != test })
	if test { // only decisions about live money need two people
		r.Pending = nil
	}
	return all - len(r.Conditions)
}

const testMode = "test"

func isTest(c Condition) bool {
	if mode := c.Labels["mode"]; mode != "" {
		return mode == testMode
	}
	ofSink := c.Kind() == condition.Sink || c.Kind() == condition.Paused && c.Labels["kind"] == "sink"
	return ofSink && strings.HasSuffix(c.Name, ":"+testMode) && !strings.Contains(c.Name, config.DestinationPrefix)
}

// severities lists the severities, the most severe first.
var severities = []notice.Severity{notice.Page, notice.Ticket, notice.Info}

// Conditions returns the current problems, the most severe first.
func Conditions(ctx context.Context, cfg *config.Config, o *decide.Operator) ([]Condition, error) {
	found, err := condition.Reader{Operator: o, Config: cfg}.ReadAll(ctx)
	if err != nil {
		return nil, err
	}
	notices, err := notice.New(o.DB).Now(ctx)
	if err != nil {
		return nil, err
	}
	list := []Condition{}
	for _, n := range notices { // only a worker verifies the audit trail, so read this condition from the notifications
		if n.Kind() == condition.Audit {
			found = append(found, n.Condition)
		}
	}
	for _, c := range found {
		shown := Condition{Condition: c}
		if i := slices.IndexFunc(notices, func(n notice.Notice) bool { return n.Name == c.Name }); i >= 0 {
			shown.NotifiedAt, shown.Since = notices[i].Notified, notices[i].Since
		}
		list = append(list, shown)
	}
	slices.SortStableFunc(list, func(a, b Condition) int {
		return slices.Index(severities, a.Severity) - slices.Index(severities, b.Severity)
	})
	return list, nil
}
