package operator

import (
	"context"
	"errors"
	"strings"

	"github.com/pawlhq/pawl/schema/pending"
	"github.com/pawlhq/pawl/workflows"
)

// mostPreviewed bounds how many of a job's events are previewed each: the others are of the same filter, and who acts
// on that many is shown the first.
const mostPreviewed = 500

// JobPreview is what a bulk job would do. Nothing was changed to know it.
type JobPreview struct {
	Action string `json:"action"`
	Count  int    `json:"count"`
	Chosen
	// Previewed is how many of the events were previewed, each by the plan of its own flow: the newest.
	Previewed int `json:"previewed"`
	// Outcomes counts them by the status that they would come to. Refused counts those that would refuse the verb.
	Outcomes map[string]int `json:"outcomes"`
	Refused  int            `json:"refused"`
	// Refusals counts the refused by their reason.
	Refusals map[string]int `json:"refusals"`
	// Unknown counts those that cannot be previewed, and Why says why of the first.
	Unknown int    `json:"unknown,omitempty"`
	Why     string `json:"why_unknown,omitempty"`
	// Counts and Sums are those of [Preview], of all of them.
	Counts map[workflows.Will]int `json:"effects"`
	// Kinds counts the effects that would run, by kind.
	Kinds map[string]int `json:"kinds"`
	Sums  []Sum          `json:"sums"`
	// FourEyes is set if the job needs two people: it says so, and whether the first person has asked for it.
	FourEyes string `json:"four_eyes,omitempty"`
	// Pending is the job of the first person that you can confirm.
	Pending *pending.Decision `json:"pending,omitempty"`
}

// PreviewJob returns what a job would do about each of its chosen events, and changes nothing. by would make it; nil is
// the command line. A person without the right to the job's verb gets no preview, because each event costs several
// queries. For the same reason two previews run at a time, one for each person, and the others wait.
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
