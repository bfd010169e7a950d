package process

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/run"
	"github.com/pawlhq/pawl/schema/schematest"
)

// signalled simulates a Temporal that records the signalled runs with their times.
type signalled struct {
	client.Client
	mu   sync.Mutex
	runs []string
	at   []time.Time
	then func(run string, n int)
}

func (s *signalled) SignalWorkflow(_ context.Context, id, _, name string, _ any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name != activities.SignalTryAgain {
		return fmt.Errorf("another signal: %s", name)
	}
	s.runs, s.at = append(s.runs, id), append(s.at, time.Now())
	s.then(id, len(s.runs))
	return nil
}

// When a sink recovers, each of the many waiting runs is signalled once, at a limited rate. If the sink goes down
// again, the remaining runs keep waiting.
func TestLetIn_Gradually_UntilItIsOutAgain(t *testing.T) {
	t.Parallel()
	const waiting, back = 60, 40
	for name, outAfter := range map[string]int{"stays back": waiting + 1, "is out again": 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := open(t, schematest.NewDSN(t), func(cfg *config.Config) {
				noTemporal(t, cfg)
				cfg.Sinks["finance"] = &config.Sink{Server: config.Server{Endpoint: config.Endpoint{URL: "http://127.0.0.1:1"}}, Sending: config.Sending{Bounds: config.Bounds{MaxConcurrency: 1}}}
			})
			book, _, _, err := n.Equip()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(book.Close)
			n.Breaking.Back = back
			wait(t, n, waiting)
			temporal := &signalled{then: func(id string, told int) {
				if _, err := n.Pool.Exec(t.Context(), `update receipts set status = 'processing', reason = '' where workflow_id = $1`, id); err != nil {
					t.Error(err)
				}
				if told != outAfter {
					return
				}
				if _, err := n.Pool.Exec(t.Context(), `insert into breakers (sink, open, since, reason, probe_at) values ('finance', true, now(), 'finance answered 503', now())`); err != nil {
					t.Error(err)
				}
				n.effects.Read(t.Context(), n.gates.all(), n.Runs.SinkWaiters)
			}}
			own := n.Temporal
			n.Temporal = temporal
			n.resume(t.Context(), "finance", n.gates["finance"])
			n.Temporal = own

			told := len(temporal.runs)
			slices.Sort(temporal.runs)
			if len(slices.Compact(temporal.runs)) != told {
				t.Error("a run was signalled twice")
			}
			if outAfter > waiting && told != waiting {
				t.Errorf("%d of %d were signalled", told, waiting)
			}
			// up to eight signals may be in progress
			if outAfter < waiting && (told < outAfter || told > outAfter+10) {
				t.Errorf("%d were signalled, %d before it was down again", told, outAfter)
			}
			// The rate limits the number of starts per second; the first start is immediate.
			if took, want := temporal.at[told-1].Sub(temporal.at[0]), time.Duration(told-10)*time.Second/back; took < want {
				t.Errorf("%d runs were let in within %s, want at least %s", told, took, want)
			}
		})
	}
}

// wait creates receipts with runs that wait for the finance sink.
func wait(t *testing.T, n *Node, many int) {
	t.Helper()
	var events []receipt.New
	for i := range many {
		events = append(events, receipt.New{EventID: fmt.Sprint("evt_", i), Mode: "live", Type: "invoice.paid", Identity: receipt.ByID, Status: receipt.Received, Body: []byte("{}")})
	}
	if _, err := n.Receipts.Insert(t.Context(), receipt.Delivery{Source: "stripe", Provider: "stripe", ReceivedAt: time.Now(), Events: events}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Pool.Exec(t.Context(), `update receipts set status = 'retrying', reason = $1, workflow_id = 'stripe:' || event_id`,
		run.DownReason("finance", "has been down since noon: finance answered 503")); err != nil {
		t.Fatal(err)
	}
}
