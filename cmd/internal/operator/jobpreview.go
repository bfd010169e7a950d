package operator

import (
	"context"
	"errors"
	"strings"

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
	Sums   []Sum                  `json:"sums"`
	// FourEyes says why the job takes two persons; "" where one decides.
	FourEyes string `json:"four_eyes,omitempty"`
}

// PreviewJob says what a job would do about each of its chosen events, and changes nothing. by would make it; nil is
// the command line.
func (o *Operator) PreviewJob(ctx context.Context, by *Person, j *NewJob) (*JobPreview, error) {
	chosen := j.Chosen
	d := Decision{Verb: j.Action, By: by, Args: Args{Effect: j.Effect, Reference: j.Reference}}
	made := &JobPreview{
		Action: d.Verb, Count: len(chosen.Events), Chosen: chosen, Previewed: min(len(chosen.Events), mostPreviewed),
		Outcomes: map[string]int{}, Refusals: map[string]int{}, Counts: map[workflows.Will]int{}, Sums: []Sum{},
	}
	s := newStake()
	s.unknown = made.Previewed < made.Count && VerbNamed(j.Action).Judges
	for _, e := range chosen.Events[:made.Previewed] {
		d.Target = e.Receipt
		p, err := o.Preview(ctx, d)
		if err == nil && judges(d.Verb, &p.Receipt) {
			s.preview(p)
		}
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
	if o.FourEyes == nil {
		return made, nil
	}
	d.Verb, d.Found, d.o = VerbStartJob, j, o
	e, err := startJobRule.look(ctx, &d, j, subjectOf(j, ""), new(change), s)
	if refused, is := errors.AsType[*RefusedError](err); is {
		made.FourEyes, err = "It "+refused.Why+".", nil
	} else {
		made.FourEyes = e.says()
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
}
