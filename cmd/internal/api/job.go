package api

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	jobs "github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/schema/job"
)

// jobFields lists the fields in the body of a job. The body can also contain the criteria of the events; see
// [event.Criteria].
var jobFields = []string{"verb", "reason", "effect", "reference", "rate", "count", "pending"}

// defaultRate is the default number of events per second.
const defaultRate = "5"

// startJob starts or previews a job that makes one decision about all events that match a filter. The body must
// contain the number of events that the caller has seen. If another number of events matches now, the request is
// rejected.
func (c *call) startJob() error {
	dry, err := c.oneOf("dry_run", "true", "false")
	if err != nil {
		return err
	}
	given, err := c.body(append(slices.Clone(jobFields), event.Criteria...)...)
	if err != nil {
		return err
	}
	j, err := c.jobOf(given)
	if err != nil {
		return err
	}
	if dry == "true" {
		made, err := jobs.PreviewAll(c.ctx(), c.Operator, c.person, j)
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
	if request != "" { // if the request is repeated, use the events of the first request
		_, err := job.New(c.Operator.DB).Get(c.ctx(), request)
		known = err == nil
	}
	if n := strconv.Itoa(len(j.Chosen.Events)); !known && given["count"] != n {
		return problem(http.StatusConflict, "count", "%s events pass the filter, and count is %.20q: nothing was "+
			"changed. Check the list of a dry run, and send its count", n, given["count"])
	}
	made, err := c.Operator.Decide(c.ctx(), decide.Decision{Verb: jobs.Start.Name, By: c.person,
		Request: cmp.Or(request, j.Action+"-"+uuid.NewString()[:8]), Reason: given["reason"],
		Args: decide.Args{Found: j}})
	switch {
	case err != nil:
		return err
	case made.Pending != nil:
		return c.JSON(http.StatusAccepted, made)
	}
	return c.JSON(http.StatusOK, made)
}

// jobOf returns the requested job with its events. If the request confirms a job as the second person, jobOf returns
// the job that the first person requested.
func (c *call) jobOf(given map[string]string) (*decide.NewJob, error) {
	id, confirms := given["pending"]
	if !confirms {
		j, err := newJob(given)
		if err != nil {
			return nil, err
		}
		filter, err := event.JobFilter(j.Filter)
		if err != nil {
			return nil, err
		}
		j.Chosen, err = event.Choose(c.ctx(), c.Operator.DB, filter)
		return j, err
	}
	for name := range given {
		if !slices.Contains([]string{"pending", "reason", "count"}, name) {
			return nil, wrong("%s is not allowed: you confirm the job with the arguments of the person who requested it", name)
		}
	}
	return jobs.Confirmed(c.ctx(), c.Operator.DB, id)
}

// newJob parses the fields of a job. It does not read the events.
func newJob(given map[string]string) (*decide.NewJob, error) {
	j := &decide.NewJob{Job: job.Job{Action: given["verb"], Effect: given["effect"], Reference: given["reference"],
		Filter: map[string]string{}}}
	for _, name := range event.Criteria {
		if value := given[name]; value != "" {
			j.Filter[name] = value
		}
	}
	v := operator.Verbs.Named(j.Action)
	if v == nil || len(v.Many) == 0 {
		return nil, wrong("verb: %.40q cannot be about many events", j.Action)
	}
	j.Rate, _ = strconv.ParseFloat(cmp.Or(given["rate"], defaultRate), 64) // 0 if it is not a number
	if err := jobs.CheckMany(v, given["status"], j.Rate); err != nil {
		return nil, wrong("%s", err)
	}
	return j, nil
}
