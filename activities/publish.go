package activities

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/outbox"
)

// Subscriber receives internal events as CloudEvents over HTTP. Any 2xx response acknowledges the event.
type Subscriber struct {
	Name    string
	URL     string
	Token   string
	Timeout time.Duration
	// Types selects internal events by type or by prefix ("invoice.*"). Empty means all types.
	Types []string
}

// Takes reports whether the subscriber receives events of a type.
func (s Subscriber) Takes(kind string) bool {
	noun, _, _ := strings.Cut(kind, ".")
	return len(s.Types) == 0 || slices.Contains(s.Types, kind) || slices.Contains(s.Types, noun+".*")
}

// Publisher publishes the outbox to the subscribers: at least once, and in order within an account. Consumers
// deduplicate by the ID of the event. Several publishers may run in parallel.
type Publisher struct {
	Outbox      *outbox.Store
	Subscribers []Subscriber
	Client      *http.Client
	Log         *slog.Logger
	// API is the base URL of pawl's API, for links in events. "" omits the links.
	API string

	once sync.Once
	wake chan struct{}

	// slow counts the accounts that a round has not waited for. late ends when their outcomes are recorded.
	slow atomic.Int64
	late sync.WaitGroup
}

const (
	// publishBatch limits the events of a round. Their requests run in parallel.
	publishBatch = 64
	// publishPoll is the interval that finds events of other processes. An event of this process wakes the publisher.
	publishPoll = 500 * time.Millisecond
	// publishPace is the minimum time between the starts of two rounds. Under load, one round then takes and records
	// the events of several transactions. A single event does not wait for it.
	publishPace = 20 * time.Millisecond
	// publishPatience is how long a round waits for its slowest request. Other accounts then continue. Without it,
	// one account with an unresponsive subscriber blocked all of them for a timeout.
	publishPatience = 250 * time.Millisecond
	// publishRecord bounds the recording of deliveries.
	publishRecord = 5 * time.Second
	// publishBackoff is the longest delay before a rejected event is sent again.
	publishBackoff = 5 * time.Minute
)

func (p *Publisher) waker() chan struct{} {
	p.once.Do(func() { p.wake = make(chan struct{}, 1) })
	return p.wake
}

// Wake makes the publisher read the outbox now. It never blocks.
func (p *Publisher) Wake() {
	select {
	case p.waker() <- struct{}{}:
	default: // a wake-up is already pending
	}
}

// Run publishes until ctx ends. It returns when all deliveries are recorded.
func (p *Publisher) Run(ctx context.Context) {
	defer p.late.Wait()
	ticker := time.NewTicker(publishPoll)
	defer ticker.Stop()
	for {
		pace := time.After(publishPace)
		more, err := p.round(ctx, publishBatch-int(p.slow.Load()), publishPatience)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			p.Log.WarnContext(ctx, "publishing the outbox failed, trying again", "error", err)
		}
		if !more || err != nil { // a round takes a few events per account: there may be more
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

// RunOnce publishes the oldest due events of each account and reports whether it published any.
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

// leave records the results of n accounts as they arrive, batching the ones that arrive together. Until then their
// leases keep the events from being taken again.
func (p *Publisher) leave(ctx context.Context, results <-chan []outbox.Settled, n int) {
	p.slow.Add(int64(n))
	p.late.Go(func() {
		for n > 0 {
			settled, accounts := <-results, 1
			for ; len(results) > 0; accounts++ { // this is the only receiver
				settled = append(settled, <-results...)
			}
			if err := p.record(ctx, settled); err != nil {
				p.Log.WarnContext(ctx, "published events not recorded, they will be sent again", "count", len(settled),
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

// lease outlasts a round: publishPatience, every subscriber's timeout, and the recording. If a publisher is killed,
// its accounts wait this long.
func (p *Publisher) lease() time.Duration {
	lease := publishPatience + publishRecord
	for _, s := range p.Subscribers {
		lease += s.Timeout
	}
	return lease
}

// publish sends an event to the subscribers that select its type and have not received it yet.
func (p *Publisher) publish(ctx context.Context, e outbox.Event) outbox.Settled {
	ctx = event.WithTrace(ctx, e.Trace)
	settled := outbox.Settled{ID: e.ID, DeliveredTo: e.DeliveredTo, Published: true}
	for _, s := range p.Subscribers {
		if e.OnlyTo != "" && e.OnlyTo != s.Name || !s.Takes(e.Type) || slices.Contains(e.DeliveredTo, s.Name) {
			continue
		}
		if err := p.post(ctx, s, e); err != nil {
			settled.Published = false
			settled.Error = fmt.Sprintf("subscriber %s: %v", s.Name, err)
			settled.RetryIn = min(time.Second<<min(max(e.Attempts-1, 0), 16), publishBackoff)
			p.Log.WarnContext(ctx, "subscriber did not accept an event", "subscriber", s.Name, "receipt_id",
				e.ReceiptID,
				"attempt", e.Attempts, "error", err)
			continue
		}
		settled.DeliveredTo = append(settled.DeliveredTo, s.Name)
	}
	return settled
}

// post sends one event in the binary mode of the CloudEvents HTTP binding.
func (p *Publisher) post(ctx context.Context, s Subscriber, e outbox.Event) error {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	header := headerOf("", s.Token)
	for name, value := range cloudEvent(e, p.API) {
		if value != "" {
			header.Set(name, headerValue(value))
		}
	}
	got, err := call(ctx, p.Client, http.MethodPost, s.URL, header, e.Data)
	if got == nil {
		return err
	}
	if got.StatusCode < 200 || got.StatusCode > 299 {
		return fmt.Errorf("answered %d", got.StatusCode)
	}
	return nil
}
