package operator

import (
	"context"
	"errors"
	"strings"

	"github.com/pawlhq/pawl/schema/pending"
	"github.com/pawlhq/pawl/workflows"
)

// mostPreviewed limits how many events of a job are previewed. The other events match the same filter.
const mostPreviewed = 500

// JobPreview describes the consequence of a bulk job. Computing it changes nothing.
type JobPreview struct {
	Action string `json:"action"`
	Count  int    `json:"count"`
	Chosen
	// Previewed is the number of previewed events, the newest of the job.
	Previewed int `json:"previewed"`
	// Outcomes counts the previewed events by their final status. Refused counts the events that would refuse the verb.
	Outcomes map[string]int `json:"outcomes"`
	Refused  int            `json:"refused"`
	// Refusals counts the refused events by reason.
	Refusals map[string]int `json:"refusals"`
	// Unknown counts the events that could not be previewed. Why is the reason for the first one.
	Unknown int    `json:"unknown,omitempty"`
	Why     string `json:"why_unknown,omitempty"`
	// Counts and Sums are the totals of the same fields in [Preview].
	Counts map[workflows.Will]int `json:"effects"`
	// Kinds counts the effects that would run, by kind.
	Kinds map[string]int `json:"kinds"`
	Sums  []Sum          `json:"sums"`
	// FourEyes is set if the job needs two people. It states whether the first person has asked for it.
	FourEyes string `json:"four_eyes,omitempty"`
	// Pending is the job of the first person that you can confirm.
	Pending *pending.Decision `json:"pending,omitempty"`
}

// PreviewJob describes the consequence of a job for its newest events and changes nothing. by is the person who would
// create the job, or nil for the command line. A person without the right to the verb gets no preview, because each
// event needs several queries. For the same reason a person has one preview at a time, and a process runs two.
func (o *Operator) PreviewJob(ctx context.Context, by *Person, j *NewJob) (*JobPreview, error) {
	if v := VerbNamed(j.Action); by != nil && v != nil && !by.May(v.Rights()...) {
		return nil, Forbids(v.Name, v.Rights()...)
	}
	if o.Remote {
		return remote[JobPreview](ctx, o, remotePreviewJob, remoteInput{Job: j, By: by})
	}
	leave, err := jobPreviews.enter(ctx, by)
	if err != nil {
		return nil, err
	}
	defer leave()
	chosen := j.Chosen
	d := Decision{Verb: j.Action, By: by, Args: Args{Effect: j.Effect, Reference: j.Reference}}
	made := &JobPreview{
		Action: d.Verb, Count: len(chosen.Events), Chosen: chosen, Previewed: min(len(chosen.Events), mostPreviewed),
		Outcomes: map[string]int{}, Refusals: map[string]int{}, Counts: map[workflows.Will]int{},
		Kinds: map[string]int{}, Sums: []Sum{},
	}
	for _, e := range chosen.Events[:made.Previewed] {
		d.Target = e.Receipt
		p, err := o.Preview(ctx, d)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			if made.Unknown++; made.Why == "" {
				made.Why = err.Error()
			}
		case p.Refused != "":
			made.Refused++
			_, why, _ := strings.Cut(p.Refused, " ")
			made.Refusals[why]++
		default:
			made.add(p)
		}
	}
	d.Verb, d.Found, d.Confirms, d.preview, d.o = VerbStartJob, j, j.Confirms, true, o
	t, err := d.twoPeople(ctx, j, subjectOf(j, ""), &change{judges: j.judges(), money: j.Chosen.Money,
		state: j.state(j.items())})
	if refused, is := errors.AsType[*RefusedError](err); is {
		made.FourEyes, err = "It "+refused.Why+".", nil
	} else {
		made.FourEyes, made.Pending = t.notice(), t.confirms()
	}
	return made, err
}

func (j *JobPreview) add(p *Preview) {
	j.Outcomes[p.Outcome]++
	for will, n := range p.Counts {
		j.Counts[will] += n
	}
	for _, s := range p.Money {
		j.Sums = add(j.Sums, s)
	}
	for _, e := range p.Effects {
		if e.Will == workflows.WillRun || e.Will == workflows.WillRunLater {
			j.Kinds[e.Kind]++
		}
	}
}
