package job

import (
	"context"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/pending"
	"github.com/pawlhq/pawl/workflows"
)

// mostPreviewed limits how many events of a job are previewed. The remaining events match the same filter.
const mostPreviewed = 500

// Preview describes the consequence of a bulk job. Computing it changes nothing.
type Preview struct {
	Action string `json:"action"`
	Count  int    `json:"count"`
	decide.Chosen
	// Previewed is the number of previewed events, the newest of the job.
	Previewed int `json:"previewed"`
	// Outcomes counts the previewed events by their final status. Refused counts the events for which the verb would
	// be refused.
	Outcomes map[string]int `json:"outcomes"`
	Refused  int            `json:"refused"`
	// Refusals counts the refused events by reason.
	Refusals map[string]int `json:"refusals"`
	// Unknown counts the events that could not be previewed. Reason is the reason for the first of these events.
	Unknown       int    `json:"unknown,omitempty"`
	UnknownReason string `json:"unknown_reason,omitempty"`
	// Counts and Sums are the totals of the fields with these names in [decide.Preview].
	Counts map[workflows.Will]int `json:"effects"`
	// Kinds counts the effects that would run, by kind.
	Kinds map[string]int `json:"kinds"`
	Sums  []decide.Sum   `json:"sums"`
	// Consequences describe the decision about each event for people. It is nil if the consequences differ.
	Consequences []decide.Consequence `json:"consequences,omitempty"`
	// FourEyes is set if the job needs two people. It also reports whether the first person has requested the job.
	FourEyes string `json:"four_eyes,omitempty"`
	// Pending is the job of the first person that you can confirm.
	Pending *pending.Decision `json:"pending,omitempty"`
}

// PreviewAll describes the consequence of a job for its newest events and changes nothing. by is the person who would
// create the job, or nil on the command line. A person without the right to the verb gets no preview, because the
// preview of each event needs several queries. For the same reason, a person can compute one preview at a time, and a
// process computes at most two.
func PreviewAll(ctx context.Context, o *decide.Operator, by *decide.Person, j *decide.NewJob) (*Preview, error) {
	verb, err := permitJob(o, by, j)
	if err != nil {
		return nil, err
	}
	if o.Remote {
		return decide.CallWorker[Preview](ctx, o, PreviewCall.Name, 0, sentJob{j, by})
	}
	return previewJob(ctx, o, by, verb, j)
}

// permitJob returns the verb of the job's items. It refuses a person without the right to the verb.
func permitJob(o *decide.Operator, by *decide.Person, j *decide.NewJob) (*decide.Verb, error) {
	verb, err := o.ItemVerb(j)
	if err == nil && by != nil && !by.May(verb.Rights()...) {
		err = decide.Forbids(verb.Name, verb.Rights()...)
	}
	return verb, err
}

// previewJob is [PreviewAll] without the use of a worker.
func previewJob(ctx context.Context, o *decide.Operator, by *decide.Person, verb *decide.Verb,
	j *decide.NewJob) (*Preview, error) {
	leave, err := jobPreviews.enter(ctx, by)
	if err != nil {
		return nil, err
	}
	defer leave()
	chosen := j.Chosen
	d := decide.Decision{Verb: j.Action, By: by, Args: decide.Args{Effect: j.Effect, Reference: j.Reference}}
	made := &Preview{
		Action: d.Verb, Count: len(chosen.Events), Chosen: chosen, Previewed: min(len(chosen.Events), mostPreviewed),
		Outcomes: map[string]int{}, Refusals: map[string]int{}, Counts: map[workflows.Will]int{},
		Kinds: map[string]int{}, Sums: []decide.Sum{},
	}
	first := true
	for _, e := range chosen.Events[:made.Previewed] {
		d.Target = e.Receipt
		p, err := o.Preview(ctx, d)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			if made.Unknown++; made.UnknownReason == "" {
				made.UnknownReason = err.Error()
			}
		case p.Refused != "":
			made.Refused++
			_, why, _ := strings.Cut(p.Refused, " ")
			made.Refusals[why]++
		default:
			if first {
				first, made.Consequences = false, p.Consequences
			} else if !slices.Equal(made.Consequences, p.Consequences) {
				made.Consequences = nil
			}
			made.add(p)
		}
	}
	d.Verb, d.Found, d.Confirms = Start.Name, j, j.Confirms
	made.FourEyes, made.Pending, err = d.PreviewApproval(ctx, o, j, &decide.Change{Judges: j.JudgesMoney(verb),
		Money: j.Chosen.Money, State: j.Content(j.Items())})
	return made, err
}

// sentJob is the input of [PreviewJobCall].
type sentJob struct {
	Job *decide.NewJob
	By  *decide.Person
}

// PreviewCall is the call by which a console executes [PreviewAll] on a worker.
var PreviewCall = decide.NewCall("preview_job", 0, func(ctx context.Context, o *decide.Operator, in sentJob) (*Preview,
	error) {
	if in.Job == nil || in.By == nil {
		return nil, decide.Invalidf("a request of a console must contain the person who decides")
	}
	verb, err := permitJob(o, in.By, in.Job)
	if err != nil {
		return nil, err
	}
	return previewJob(ctx, o, in.By, verb, in.Job)
})

func (j *Preview) add(p *decide.Preview) {
	j.Outcomes[p.Outcome]++
	for will, n := range p.Counts {
		j.Counts[will] += n
	}
	for _, s := range p.Money {
		j.Sums = decide.AddSum(j.Sums, s)
	}
	for _, e := range p.Effects {
		if e.Will == workflows.WillRun || e.Will == workflows.WillRunLater {
			j.Kinds[e.Kind]++
		}
	}
}
