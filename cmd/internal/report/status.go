package report

import (
	"context"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/notice"
	"github.com/pawlhq/pawl/schema/pending"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/schema/withheld"
)

// Status summarizes the current problems and the current work.
type Status struct {
	*timeline.Backlog
	Sinks []Sink `json:"sinks"`
	// Pending lists the decisions that wait for a second person.
	Pending []pending.Decision `json:"pending"`
	// Effects lists the start of effects by mode, and Withheld counts the withheld effects.
	Effects  []withheld.From `json:"effects"`
	Withheld []withheld.Sum  `json:"withheld"`
	// Tasks counts the open tasks of people.
	Tasks []account.Count `json:"tasks"`
	// Notices lists the current notifications.
	Notices []notice.Notice `json:"notices"`
	// Concerns lists the problems that no event shows.
	Concerns []Concern `json:"concerns"`
	// Jobs lists the running and paused jobs.
	Jobs []job.Job `json:"jobs"`
}

// ReadStatus returns the current status.
func ReadStatus(ctx context.Context, cfg *config.Config, o *operator.Operator) (*Status, error) {
	r := new(Status)
	var err error
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
	if r.Tasks, err = account.CountTasks(ctx, o.DB, false); err != nil {
		return nil, err
	}
	if r.Notices, err = notice.New(o.DB).Now(ctx); err != nil {
		return nil, err
	}
	r.Concerns, err = Concerns(ctx, cfg, o, r.Waiting)
	return r, err
}
