package operator

import (
	"cmp"
	"context"
	"errors"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// stake is the money that a decision is about. These entries count: it books them, takes them back, leaves them out of
// the books or, in a review, lets them stand; with or without a finance sink. Money that goes out counts as much as
// money that comes in.
type stake struct {
	// entries has amounts by key and currency: an entry and its reversal are one.
	entries map[[2]string]int64
	// unknown is set where the provider is asked first, and where there is too much to add up.
	unknown bool
}

func newStake() *stake { return &stake{entries: map[[2]string]int64{}} }

// preview adds what a preview says.
func (s *stake) preview(p *Preview) {
	_, review := reviewOf(&p.Receipt)
	s.unknown = s.unknown || p.Asks
	for _, e := range p.Effects {
		counts := false
		switch e.Will {
		case workflows.WillRun, workflows.WillRunLater, workflows.WillTakeBack, workflows.WillRunAndTakeBack,
			workflows.WillSkip, workflows.WillMark, workflows.WillLeave: // left, for want of a finance sink
			counts = true
		case workflows.WillStay:
			counts = review
		}
		if !counts || e.Amount == nil {
			continue
		}
		s.add(cmp.Or(e.Undoes, e.Key), e.Currency, *e.Amount)
	}
}

// add adds an amount: of several under one key the largest counts.
func (s *stake) add(key, currency string, amount int64) {
	at := [2]string{key, currency}
	s.entries[at] = max(s.entries[at], amount, -amount)
}

// money is its sum by currency.
func (s *stake) money() map[string]int64 {
	sums := map[string]int64{}
	for key, amount := range s.entries {
		if amount != 0 {
			sums[key[1]] += amount
		}
	}
	return sums
}

// over reports whether it takes two persons.
func (s *stake) over(limits map[string]int64) bool {
	for currency, amount := range s.money() {
		if amount > limits[currency] {
			return true
		}
	}
	return s.unknown
}

// weigh adds what a decision is about.
func (r rule[T, R]) weigh(ctx context.Context, d *Decision, target T, s *stake) error {
	if r.stake != nil {
		return r.stake(ctx, d, target, s)
	}
	p := newPreview(d.Verb, target)
	if err := r.forecast(ctx, d, target, p); err != nil {
		return err
	}
	s.preview(p)
	return nil
}

func (r rule[T, R]) risk(ctx context.Context, d *Decision, s *stake) error {
	target, _, err := r.find(ctx, d)
	if err == nil && judges(d.Verb, target) {
		if _, err = r.check(ctx, d, target); err == nil {
			err = r.weigh(ctx, d, target, s)
		}
	}
	if _, refused := errors.AsType[*RefusedError](err); refused {
		return nil // nothing is done about it
	}
	return err
}

// stakeOfMany adds what a job is about. Its events are added up as far as they are previewed: more takes two persons.
func stakeOfMany(ctx context.Context, d *Decision, j *NewJob, s *stake) error {
	v := VerbNamed(j.Action)
	judged := 0
	for _, e := range j.Chosen.Events {
		if !v.Judges && e.Status != string(receipt.NeedsReview) {
			continue
		}
		if judged++; judged > mostPreviewed {
			s.unknown = true
			return nil
		}
		one := *d
		one.Verb, one.Target, one.preview = j.Action, e.Receipt, true
		one.Args = Args{Effect: j.Effect, Reference: j.Reference}
		if err := v.rule.risk(ctx, &one, s); err != nil {
			return err
		}
	}
	return nil
}
