package source

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

// EventLister lists the events of an account at the provider. [*stripe.Client] implements it.
type EventLister interface {
	Events(ctx context.Context, q stripe.EventsQuery) (page []stripe.Event, more bool, err error)
	ThinEvents(ctx context.Context, q stripe.ThinQuery) (page []stripe.Event, next string, err error)
}

// Gaps finds the events that the provider sent to a source and that pawl never received. The fields Types, Thin and
// OnPage are optional.
//
// Stripe creates a snapshot event and a thin event for the same change, with different IDs. If any source has received
// one of the two, the event is not missing.
type Gaps struct {
	API    EventLister
	Source string
	// Thin is set if the source's endpoint sends thin events.
	Thin bool
	// Connected returns the connected accounts. Their events are listed in addition to the events of the Stripe
	// account itself.
	Connected func(context.Context) ([]string, error)
	// Types lists the event types that the source wants. Empty means all types.
	Types []string
	// Filed converts a listed event into a delivery to the source.
	Filed func(body []byte, account string, at time.Time) receipt.Delivery
	Held  func(context.Context, []receipt.Key) ([]bool, error)
	// OnPage, if set, receives the number of listed events after each page.
	OnPage func(listed int)
	Now    func() time.Time
}

// mostMissing limits the missing events in memory. Each holds its payload of some kilobytes.
const mostMissing = 10_000

// Gap is an event that was never received.
type Gap struct {
	EventID string    `json:"event_id"`
	Type    string    `json:"type"`
	Object  string    `json:"object"`
	Account string    `json:"account,omitempty"`
	Mode    string    `json:"mode"`
	Created time.Time `json:"created_at"`
	// Pending is set while the provider still retries the delivery.
	Pending bool `json:"pending"`

	delivery receipt.Delivery
}

// GapReport lists the missing events and the receipts of the events that were stored.
type GapReport struct {
	Source string `json:"source"`
	// From and To are the period of the search. KeptSince is set if the requested period started before the
	// provider's retention period. More is set if the search stopped at the maximum number of events, so that the
	// older part of the period was not searched.
	From      time.Time  `json:"since"`
	To        time.Time  `json:"until"`
	KeptSince *time.Time `json:"retention_start_at,omitempty"`
	More      bool       `json:"more,omitempty"`
	// Listed counts the events at the provider. Unwanted counts the events among them that the source ignores.
	Listed   int `json:"listed"`
	Unwanted int `json:"unwanted"`
	// Missing lists the events that were never received, oldest first.
	Missing []Gap `json:"missing"`
	// Filed lists the receipts of the events that were stored.
	Filed []Receipt `json:"filed"`
}

// Failed reports whether an event is still missing.
func (r *GapReport) Failed() bool { return len(r.Missing) > len(r.Filed) || r.More }

// Find lists the provider's events of a period and returns the events that were never received. It changes nothing.
func (g *Gaps) Find(ctx context.Context, from, to time.Time) (*GapReport, error) {
	report := &GapReport{Source: g.Source, From: from.UTC().Truncate(time.Second), To: to.UTC().Truncate(time.Second),
		Missing: []Gap{}, Filed: []Receipt{}}
	if kept := g.Now().Add(-stripe.EventsKept).UTC().Truncate(time.Second); report.From.Before(kept) {
		report.From, report.KeptSince = kept, &kept
	}
	if !report.From.Before(report.To) {
		return nil, fmt.Errorf("no events are available between %s and %s: Stripe returns events of the last 30 days",
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
			return nil, fmt.Errorf("list Stripe's events for %s: %w", g.Source, err)
		}
	}
	slices.SortStableFunc(report.Missing, func(a, b Gap) int { return a.Created.Compare(b.Created) })
	return report, nil
}

// list reads the snapshot events of an account, newest first.
func (g *Gaps) list(ctx context.Context, account string, report *GapReport) error {
	q := stripe.EventsQuery{From: report.From, To: report.To, Types: g.Types, Account: account}
	thin := sync.OnceValues(func() (map[string]string, error) { return g.thinOf(ctx, account, report.From) })
	for more := true; more; {
		var page []stripe.Event
		var err error
		page, more, err = g.API.Events(ctx, q)
		if errors.Is(err, stripe.ErrNotFound) && q.After != "" {
			return errors.New("the position in the list no longer exists: list again from the start")
		}
		if err != nil {
			return err
		}
		if err := g.compare(ctx, page, account, report, thin); err != nil {
			return err
		}
		if g.OnPage != nil {
			g.OnPage(report.Listed)
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

// listThin reads the thin events of an account, newest first. The list has no time filter, so it starts with today.
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
		if g.OnPage != nil {
			g.OnPage(report.Listed)
		}
		if more = len(report.Missing) < mostMissing; !more {
			report.More, report.From = true, page[len(page)-1].Created
		}
		return more, nil
	})
}

// thinOf maps the snapshot events of an account to their thin events. The map is empty if the API key may not read
// thin events.
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

// eachThin calls do with each page of an account's thin events, newest first. It stops after the page with the first
// event that is older than from, or if do returns false.
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

// compare adds to the report the events of a page that pawl never received. others returns, by event ID, the ID of the
// other form of the same event.
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

// unheld returns the gaps with an ID that has no receipt. A gap with an empty ID has no receipt.
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
