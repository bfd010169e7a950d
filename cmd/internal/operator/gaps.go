package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/schema/receipt"
)

// EventLister lists the events that the provider has sent; a *stripe.Client.
type EventLister interface {
	Events(ctx context.Context, q stripe.EventsQuery) (page []stripe.Event, more bool, err error)
	ThinEvents(ctx context.Context, q stripe.ThinQuery) (page []stripe.Event, next string, err error)
}

// Gaps finds the events of a source that the provider has sent and that never came. Types, Thin and Told are optional.
//
// Stripe makes a snapshot event and a thin event of one change, each with an ID of its own. An event has come if either
// of the two is held, whichever source received it.
type Gaps struct {
	API    EventLister
	Source string
	// Thin is set if the source's endpoint sends thin events.
	Thin bool
	// Connected returns the connected accounts whose events are listed beside those of the key's own.
	Connected func(context.Context) ([]string, error)
	// Types are the types that the source wants, if it lists them.
	Types []string
	// Filed returns the delivery of an event of the list, as the source would take it.
	Filed func(body []byte, account string, at time.Time) receipt.Delivery
	Held  func(context.Context, []receipt.Key) ([]bool, error)
	// Told, if set, receives the number of listed events after each page.
	Told func(listed int)
	Now  func() time.Time
}

// mostMissing is how many missing events are held in memory: their bytes, of some kilobytes each.
const mostMissing = 10_000

// Gap is an event that never came.
type Gap struct {
	EventID string    `json:"event_id"`
	Type    string    `json:"type"`
	Object  string    `json:"object"`
	Account string    `json:"account,omitempty"`
	Mode    string    `json:"mode"`
	Created time.Time `json:"created"`
	// Pending says that the provider still tries to deliver it.
	Pending bool `json:"pending"`

	delivery receipt.Delivery
}

// GapReport lists the gaps, and those that were filed.
type GapReport struct {
	Source string `json:"source"`
	// From and To bound the search. KeptSince is set if it was asked to begin earlier than the provider keeps events.
	// More is set if there are so many gaps that the older part was not looked at.
	From      time.Time  `json:"from"`
	To        time.Time  `json:"to"`
	KeptSince *time.Time `json:"kept_since,omitempty"`
	More      bool       `json:"more,omitempty"`
	// Listed counts what the provider has sent, Unwanted those of it that the source does not run.
	Listed   int `json:"listed"`
	Unwanted int `json:"unwanted"`
	// Missing are those that never came, the oldest first.
	Missing []Gap `json:"missing"`
	// Filed are the receipts of those that were taken in.
	Filed []Receipt `json:"filed"`
}

// Failed reports whether a gap is left.
func (r *GapReport) Failed() bool { return len(r.Missing) > len(r.Filed) || r.More }

// Find lists what the provider has sent in a period, and returns what of it never came. It changes nothing.
func (g *Gaps) Find(ctx context.Context, from, to time.Time) (*GapReport, error) {
	report := &GapReport{Source: g.Source, From: from.UTC().Truncate(time.Second), To: to.UTC().Truncate(time.Second),
		Missing: []Gap{}, Filed: []Receipt{}}
	if kept := g.Now().Add(-stripe.EventsKept).UTC().Truncate(time.Second); report.From.Before(kept) {
		report.From, report.KeptSince = kept, &kept
	}
	if !report.From.Before(report.To) {
		return nil, fmt.Errorf("nothing lies between %s and %s: Stripe keeps events for 30 days",
			report.From.Format(time.RFC3339), report.To.Format(time.RFC3339))
	}
	connected, err := g.Connected(ctx)
	if err != nil {
		return nil, err
	}
	list := g.list
	if g.Thin {
		list = g.listThin
	}
	for _, account := range append([]string{""}, connected...) {
		if err := list(ctx, account, report); err != nil {
			return nil, fmt.Errorf("list what Stripe has sent to %s: %w", g.Source, err)
		}
	}
	slices.SortStableFunc(report.Missing, func(a, b Gap) int { return a.Created.Compare(b.Created) })
	return report, nil
}

// list reads an account's snapshot events, the newest first.
func (g *Gaps) list(ctx context.Context, account string, report *GapReport) error {
	q := stripe.EventsQuery{From: report.From, To: report.To, Types: g.Types, Account: account}
	thin := sync.OnceValues(func() (map[string]string, error) { return g.thinOf(ctx, account, report.From) })
	for more := true; more; {
		var page []stripe.Event
		var err error
		page, more, err = g.API.Events(ctx, q)
		if errors.Is(err, stripe.ErrNotFound) && q.After != "" {
			return errors.New("the place in the list is gone: ask again")
		}
		if err != nil {
			return err
		}
		if err := g.compare(ctx, page, account, report, thin); err != nil {
			return err
		}
		if g.Told != nil {
			g.Told(report.Listed)
		}
		if len(page) > 0 {
			q.After = page[len(page)-1].ID
		}
		if more && len(report.Missing) >= mostMissing {
			report.More, report.From = true, page[len(page)-1].Created
			return nil
		}
	}
	return nil
}

// listThin reads an account's thin events, the newest first. The list has no filters, so it begins with today.
func (g *Gaps) listThin(ctx context.Context, account string, report *GapReport) error {
	return g.eachThin(ctx, account, report.From, func(page []stripe.Event) (more bool, err error) {
		bySnapshot := map[string]string{}
		var within []stripe.Event
		for _, e := range page {
			if created := e.Created.Truncate(time.Second); !created.Before(report.From) && !created.After(report.To) {
				within, bySnapshot[e.ID] = append(within, e), e.Snapshot
			}
		}
		snapshots := func() (map[string]string, error) { return bySnapshot, nil }
		if err := g.compare(ctx, within, account, report, snapshots); err != nil {
			return false, err
		}
		if g.Told != nil {
			g.Told(report.Listed)
		}
		if more = len(report.Missing) < mostMissing; !more {
			report.More, report.From = true, page[len(page)-1].Created
		}
		return more, nil
	})
}

// thinOf returns the thin event of each snapshot event of an account. A key that may not read thin events knows none.
func (g *Gaps) thinOf(ctx context.Context, account string, from time.Time) (thin map[string]string, err error) {
	thin = map[string]string{}
	err = g.eachThin(ctx, account, from, func(page []stripe.Event) (bool, error) {
		for _, e := range page {
			if e.Snapshot != "" {
				thin[e.Snapshot] = e.ID
			}
		}
		return true, nil
	})
	if errors.Is(err, stripe.ErrForbidden) || errors.Is(err, stripe.ErrNotFound) {
		err = nil
	}
	return thin, err
}

// eachThin calls do with each page of an account's thin events, until a page begins before from.
func (g *Gaps) eachThin(ctx context.Context, account string, from time.Time,
	do func(page []stripe.Event) (more bool, err error)) error {
	q := stripe.ThinQuery{Account: account}
	for more := true; more; {
		page, next, err := g.API.ThinEvents(ctx, q)
		if err != nil || len(page) == 0 {
			return err
		}
		if more, err = do(page); err != nil {
			return err
		}
		q.Next, more = next, more && next != "" && !page[len(page)-1].Created.Before(from)
	}
	return nil
}

// compare adds to the report the events of a page that never came. others returns, by event ID, the ID of the other
// form of the same event.
func (g *Gaps) compare(ctx context.Context, page []stripe.Event, account string, report *GapReport,
	others func() (map[string]string, error)) error {
	var gaps []Gap
	for _, e := range page {
		report.Listed++
		d := g.Filed(e.Body, account, g.Now())
		if len(d.Events) != 1 || d.Events[0].Status == receipt.Ignored {
			report.Unwanted++
			continue
		}
		n := d.Events[0]
		gaps = append(gaps, Gap{EventID: n.EventID, Type: n.Type, Object: n.Object, Account: n.Account, Mode: n.Mode,
			Created: e.Created, Pending: e.Pending, delivery: d})
	}
	gaps, err := g.unheld(ctx, gaps, func(gap Gap) string { return gap.EventID })
	if err != nil || len(gaps) == 0 {
		return err
	}
	other, err := others()
	if err != nil {
		return err
	}
	gaps, err = g.unheld(ctx, gaps, func(gap Gap) string { return other[gap.EventID] })
	report.Missing = append(report.Missing, gaps...)
	return err
}

// unheld returns the gaps for which no receipt has the ID. An ID of "" has none.
func (g *Gaps) unheld(ctx context.Context, gaps []Gap, id func(Gap) string) (left []Gap, err error) {
	keys := make([]receipt.Key, len(gaps))
	for i, gap := range gaps {
		keys[i] = receipt.Key{Provider: gap.delivery.Provider, Account: gap.Account, Mode: gap.Mode, EventID: id(gap)}
	}
	held, err := g.Held(ctx, keys)
	if err != nil {
		return nil, err
	}
	for i, gap := range gaps {
		if !held[i] {
			left = append(left, gap)
		}
	}
	return left, nil
}

// filedAtOnce is how many events are committed together.
const filedAtOnce = 50

// gapsRule takes in what a [*GapReport] says is missing, by the same way as a delivery: should one of the events come
// after all, it is a duplicate. The dispatcher of a running ingress starts their runs.
var gapsRule = rule[*GapReport, *GapReport]{
	find: shown(func(report *GapReport) string { return "gaps/" + report.Source }),
	check: func(_ context.Context, _ *Decision, report *GapReport) (*change, error) {
		ids := make([]string, 0, len(report.Missing))
		for _, gap := range report.Missing {
			ids = append(ids, gap.EventID)
		}
		return &change{
			target: report.Source, after: map[string]any{"events": ids},
			before: map[string]any{"from": report.From, "to": report.To, "listed": report.Listed, "missing": len(ids)},
		}, nil
	},
	answer: func(ctx context.Context, d *Decision, report *GapReport, _ recorded) (string, *GapReport, error) {
		for gaps := range slices.Chunk(report.Missing, filedAtOnce) {
			all := gaps[0].delivery
			all.Events = nil
			for _, gap := range gaps {
				all.Events = append(all.Events, gap.delivery.Events...)
			}
			outcomes, err := d.o.Insert(ctx, all)
			if err != nil {
				return "", nil, fmt.Errorf("file what is missing: %w; %d of %d are filed: try again, nothing is taken twice", err, len(report.Filed), len(report.Missing))
			}
			report.Filed = append(report.Filed, filed(all, outcomes)...)
		}
		return fmt.Sprintf("%d filed: no gap is left", len(report.Filed)), report, nil
	},
}
