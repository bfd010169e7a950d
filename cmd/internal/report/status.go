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

// Status is how pawl stands: all that is wrong, and all that is under way.
type Status struct {
	*timeline.Backlog
	Sinks []Sink `json:"sinks"`
	// Pending are the decisions that wait for a second person.
	Pending []pending.Decision `json:"pending"`
	// Effects say from when the events of each mode have effects, and Withheld counts what is withheld.
	Effects  []withheld.From `json:"effects"`
	Withheld []withheld.Sum  `json:"withheld"`
	// Tasks count what a person has to do.
	Tasks []account.Count `json:"tasks"`
	// Notices are what people are told.
	Notices []notice.Notice `json:"notices"`
	// Concerns are what a person should know of beside events.
	Concerns []Concern `json:"concerns"`
	// Jobs are those that run or are paused.
	Jobs []job.Job `json:"jobs"`
}

// ReadStatus returns how pawl stands now.
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
