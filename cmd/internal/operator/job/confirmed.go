package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/pending"
)

// Confirmed returns the pending job with the ID, including the list and the arguments of the first person.
func Confirmed(ctx context.Context, db schema.Querier, id string) (*decide.NewJob, error) {
	p, err := pending.GetWhole(ctx, db, id)
	if errors.Is(err, schema.ErrNotFound) || err == nil && p.Verb != verbStart {
		return nil, decide.Unknownf("no job %q waits for a second person: it was decided or withdrawn, or it has expired", id)
	}
	if err != nil {
		return nil, err
	}
	j := &decide.NewJob{Job: job.Job{Action: p.Args["verb"], Effect: p.Args["effect"], Reference: p.Args["reference"],
		Filter: maps.Clone(p.Args)}, Confirms: id}
	for _, name := range []string{"verb", "effect", "reference", "rate"} {
		delete(j.Filter, name)
	}
	if j.Rate, err = strconv.ParseFloat(p.Args["rate"], 64); err == nil {
		err = json.Unmarshal(p.Chosen, &j.Chosen)
	}
	if err != nil {
		return nil, fmt.Errorf("read the pending job %s: %w", id, err)
	}
	return j, nil
}

// confirmed finds the pending job that the second person confirms. It ignores the list of items in the request. A
// repeated request finds the job that the first request made.
func confirmed(ctx context.Context, d *decide.Decision, sent *decide.NewJob) (*decide.NewJob, string, error) {
	j, err := Confirmed(ctx, d.Operator.DB, sent.Confirms)
	if decide.IsFault(err, decide.Unknown) {
		return sent, "job", nil // the request is repeated, or the check will refuse it
	}
	return j, "job", err
}
