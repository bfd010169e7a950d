package api

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/schema/job"
)

// jobFields lists the fields in the body of a job. The criteria of its events, [operator.Criteria], are accepted as
// well.
var jobFields = []string{"verb", "why", "effect", "reference", "rate", "count", "pending"}

// defaultRate is the default rate in events per second.
const defaultRate = "5"

// startJob starts a job that decides about all events that match a filter, or previews it. The body must contain the
// number of events that the person has seen. If the number has changed, the job is rejected.
func (c *call) startJob() error {
	dry, err := c.oneOf("dry_run", "true", "false")
	if err != nil {
		return err
	}
	given, err := c.body(append(slices.Clone(jobFields), operator.Criteria...)...)
	if err != nil {
		return err
	}
	j, err := c.jobOf(given)
	if err != nil {
		return err
	}
	if dry == "true" {
		made, err := c.Operator.PreviewJob(c.ctx(), c.person, j)
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, made)
	}
	request, err := c.key()
	if err != nil {
		return err
	}
	known := false
	if request != "" { // a repeated request is about the events of the first one
		_, err := job.New(c.Operator.DB).Get(c.ctx(), request)
		known = err == nil
	}
	if n := strconv.Itoa(len(j.Chosen.Events)); !known && given["count"] != n {
		return problem(http.StatusConflict, "count", "%s events pass the filter, and count is %.20q: nothing was "+
			"done. Look at what a dry run shows, and send its count", n, given["count"])
	}
	made, err := c.Operator.Decide(c.ctx(), operator.Decision{Verb: operator.VerbStartJob, By: c.person,
		Request: cmp.Or(request, j.Action+"-"+uuid.NewString()[:8]), Why: given["why"],
		Args: operator.Args{Found: j}})
	switch {
	case err != nil:
		return err
	case made.Pending != nil:
		return c.JSON(http.StatusAccepted, made)
	}
	return c.JSON(http.StatusOK, made)
}

// jobOf parses a job with its events. If a second person confirms it, it returns the job of the first person.
func (c *call) jobOf(given map[string]string) (*operator.NewJob, error) {
	id, confirms := given["pending"]
	if !confirms {
		j, err := newJob(given)
		if err == nil {
			j.Chosen, err = operator.ChooseEvents(c.ctx(), c.Operator.DB, operator.EventsOf(j.Filter))
		}
		return j, err
	}
	for name := range given {
		if !slices.Contains([]string{"pending", "why", "count"}, name) {
			return nil, wrong("%s: a job that you confirm has the arguments of the first person", name)
		}
	}
	return operator.ConfirmedJob(c.ctx(), c.Operator.DB, id)
}

// newJob parses a job without its events.
func newJob(given map[string]string) (*operator.NewJob, error) {
	j := &operator.NewJob{Job: job.Job{Action: given["verb"], Effect: given["effect"], Reference: given["reference"],
		Filter: map[string]string{}}}
	for _, name := range operator.Criteria {
		if value := given[name]; value != "" {
			j.Filter[name] = value
		}
	}
	v := operator.VerbNamed(j.Action)
	if v == nil || len(v.Many) == 0 {
		return nil, wrong("verb: %.40q cannot be about many events", j.Action)
	}
	j.Rate, _ = strconv.ParseFloat(cmp.Or(given["rate"], defaultRate), 64) // 0 if it is not a number
	if err := v.CheckMany(given["status"], j.Rate); err != nil {
		return nil, wrong("%s", err)
	}
	return j, nil
}
