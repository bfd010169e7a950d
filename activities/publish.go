package activities

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/activities/httpcall"
	"github.com/pawlhq/pawl/activities/published"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/outbox"
)

// Publisher publishes the outbox to the destinations and the flows: at least once, and in order within an account.
// Destinations deduplicate by the ID of the event. Several publishers may run in parallel.
type Publisher struct {
	Outbox       *outbox.Store
	Destinations []Destination
	Client       *http.Client
	Log          *slog.Logger
	// API is the base URL of pawl's API, for links in events. "" omits the links.
	API string
	// Flows stores the events that flows select as receipts. It may be nil.
	Flows *published.Intake

	once sync.Once
	wake chan struct{}

	// slow counts the accounts with requests that were in progress when their round ended. late waits for the
	// goroutines that record their outcomes, and for Flows.
	slow atomic.Int64
	late sync.WaitGroup
}

const (
	// publishBatch is the maximum number of events in a round. Requests for different accounts run in parallel.
	publishBatch = 64
	// publishPoll is the interval at which the publisher reads the outbox, to find events of other processes. If this
	// process writes an event, it calls Wake.
	publishPoll = 500 * time.Millisecond
	// publishPace is the minimum time between the starts of two rounds. Under load, one round then publishes the events
	// of several transactions.
	publishPace = 20 * time.Millisecond
	// publishPatience is how long a round waits for its slowest request. Without this limit, a destination that does
	// not respond for one account would block all accounts.
	publishPatience = 250 * time.Millisecond
	// publishRecord is the timeout for recording deliveries.
	publishRecord = 5 * time.Second
	// publishBackoff is the maximum delay before a rejected event is sent again.
	publishBackoff = 5 * time.Minute
	// publishPaused is the delay before the publisher tries again to send an event to a paused destination.
	publishPaused = 5 * time.Second
)

func (p *Publisher) waker() chan struct{} {
	p.once.Do(func() { p.wake = make(chan struct{}, 1) })
	return p.wake
}

// Wake makes the publisher read the outbox now. It never blocks.
func (p *Publisher) Wake() {
	p.Flows.Wake()
	select {
	case p.waker() <- struct{}{}:
	default: // a wake-up is already pending
	}
}

// Run publishes until ctx ends. It returns when all deliveries are recorded.
func (p *Publisher) Run(ctx context.Context) {
	defer p.late.Wait()
	p.late.Go(func() { p.Flows.Run(ctx) }) // destinations and flows do not wait for each other
	ticker := time.NewTicker(publishPoll)
	defer ticker.Stop()
	for {
		pace := time.After(publishPace)
		more, err := p.round(ctx, publishBatch-int(p.slow.Load()), publishPatience)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			p.Log.WarnContext(ctx, "outbox not published; the publisher retries", "error", err)
		}
		if !more || err != nil { // a round publishes only a few events per account, so there may be more
			select {
			case <-ctx.Done():
				return
			case <-p.waker():
			case <-ticker.C:
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-pace:
		}
	}
}

// RunOnce publishes the oldest due events of each account, and reports whether it published an event.
func (p *Publisher) RunOnce(ctx context.Context) (published bool, err error) {
	return p.round(ctx, publishBatch, p.lease())
}

// round publishes the due events of up to limit accounts and records the outcomes that arrive within patience. Later
// outcomes are recorded when they arrive. It reports whether it published any event.
func (p *Publisher) round(ctx context.Context, limit int, patience time.Duration) (published bool, err error) {
	if limit <= 0 {
		return false, nil
	}
	events, err := p.Outbox.Take(ctx, limit, p.lease())
	if err != nil || len(events) == 0 {
		return false, err
	}
	type of struct{ mode, account string }
	queues := map[of][]outbox.Event{}
	for _, e := range events {
		queues[of{e.Mode, e.Account}] = append(queues[of{e.Mode, e.Account}], e)
	}
	results := make(chan []outbox.Settled, len(queues))
	for _, queue := range queues {
		go func() { results <- p.publishInOrder(ctx, queue) }()
	}
	over := time.NewTimer(patience)
	defer over.Stop()
	var settled []outbox.Settled
	for left := len(queues); left > 0; left-- {
		select {
		case s := <-results:
			settled = append(settled, s...)
			continue
		case <-over.C:
			p.leave(ctx, results, left)
		}
		break
	}
	published = slices.ContainsFunc(settled, func(s outbox.Settled) bool { return s.Published })
	return published, p.record(ctx, settled)
}

// publishInOrder publishes an account's events in order. It stops at the first failure, or after publishPatience; the
// remaining events follow in a later round.
func (p *Publisher) publishInOrder(ctx context.Context, queue []outbox.Event) (settled []outbox.Settled) {
	for begin, i := time.Now(), 0; i < len(queue) &&
		(i == 0 || settled[i-1].Published && time.Since(begin) < publishPatience); i++ {
		settled = append(settled, p.publish(ctx, queue[i]))
	}
	return settled
}

// leave records the results of n accounts as they arrive. Until then, leases prevent that the events are sent again.
func (p *Publisher) leave(ctx context.Context, results <-chan []outbox.Settled, n int) {
	p.slow.Add(int64(n))
	p.late.Go(func() {
		for n > 0 {
			settled, accounts := <-results, 1
			for ; len(results) > 0; accounts++ { // no other goroutine receives
				settled = append(settled, <-results...)
			}
			if err := p.record(ctx, settled); err != nil {
				p.Log.WarnContext(ctx, "published events not recorded; they will be sent again", "count", len(settled),
					"error", err)
			}
			n -= accounts
			p.slow.Add(-int64(accounts))
			p.Wake()
		}
	})
}

// record stores the outcomes, even if the publisher is being stopped.
func (p *Publisher) record(ctx context.Context, settled []outbox.Settled) error {
	if len(settled) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishRecord)
	defer cancel()
	return p.Outbox.Settle(ctx, settled)
}

// lease returns the lease of an account. It is longer than a round: publishPatience, the timeouts of all destinations,
// and the recording. If a publisher is killed, nothing is published for its accounts until the lease ends.
func (p *Publisher) lease() time.Duration {
	lease := publishPatience + publishRecord
	for _, d := range p.Destinations {
		lease += d.Policy.Timeout
	}
	return lease
}

// publish sends an event to the destinations that select its type and have not received it yet.
func (p *Publisher) publish(ctx context.Context, e outbox.Event) outbox.Settled {
	ctx = event.WithTrace(ctx, e.Trace)
	settled := outbox.Settled{ID: e.ID, DeliveredTo: e.DeliveredTo, Published: true}
	for _, d := range p.Destinations {
		if e.OnlyTo != "" && e.OnlyTo != d.Name || !d.Takes(e.Type) || slices.Contains(e.DeliveredTo, d.Name) {
			continue
		}
		if _, paused := d.Policy.Gate.Paused(); paused { // a pause is not an error of the destination
			settled.Published, settled.RetryIn = false, max(settled.RetryIn, publishPaused)
			continue
		}
		if err := p.post(ctx, d, e); err != nil {
			settled.Published = false
			settled.Error = fmt.Sprintf("destination %s: %v", d.Name, err)
			settled.RetryIn = min(time.Second<<min(max(e.Attempts-1, 0), 16), publishBackoff)
			p.Log.WarnContext(ctx, "destination did not accept an event", "destination", d.Name, "receipt_id",
				e.ReceiptID,
				"attempt", e.Attempts, "error", err)
			continue
		}
		settled.DeliveredTo = append(settled.DeliveredTo, d.Name)
	}
	return settled
}

// post sends one event in the binary mode of the CloudEvents HTTP binding.
func (p *Publisher) post(ctx context.Context, d Destination, e outbox.Event) error {
	ctx, cancel := context.WithTimeout(ctx, d.Policy.Timeout)
	defer cancel()
	header := httpcall.Header("", d.Token)
	for name, value := range published.Header(e, p.API) {
		header.Set(name, value)
	}
	if len(d.Keys) > 0 {
		httpcall.SignStandard(header, d.Keys, e.EventID, time.Now(), e.Data)
	}
	got, err := httpcall.Do(ctx, p.Client, http.MethodPost, d.URL, header, e.Data)
	if got == nil {
		return err
	}
	if got.StatusCode < 200 || got.StatusCode > 299 {
		return fmt.Errorf("answered %d", got.StatusCode)
	}
	return nil
}
