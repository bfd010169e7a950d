package ingress_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/pawlhq/pawl/ingress"
	"github.com/pawlhq/pawl/ingress/rejected"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/rejection"
	"github.com/pawlhq/pawl/schema/schematest"
)

// The server diagnoses and stores rejections during a flood of distinct forged signatures. The flood delays no valid
// delivery, causes a few writes per second, and leaves a limited number of rows. The test is not parallel, because it
// measures times.
func TestFlood_ForgedSignatures_KeptWithinBounds(t *testing.T) {
	settings := webhook.Settings{Source: "shop", Mode: webhook.Live, Secrets: []webhook.Secret{{Label: "main", Value: providerSecret}}}
	verifier, err := stripe.Provider.New(settings)
	if err != nil {
		t.Fatal(err)
	}
	diagnoser, err := rejected.NewDiagnoser(map[string]rejected.Source{"shop": {Provider: stripe.Provider, Settings: settings}})
	if err != nil {
		t.Fatal(err)
	}
	pool := schematest.New(t)
	keeper := rejected.NewKeeper(rejected.Config{Store: rejection.New(pool), Diagnoser: diagnoser})
	ctx, cancel := context.WithCancel(t.Context())
	kept := make(chan struct{})
	go func() { keeper.Run(ctx); close(kept) }()
	b := start(t, pool, func(c *ingress.Config, s *ingress.Source) {
		c.Refused, s.Provider, s.Verifier = keeper.Offer, stripe.Provider, verifier
	})

	valid := func(id string) reply {
		return b.send(t, stripe.Provider, webhook.SignInput{Body: fmt.Appendf(nil, `{"id":%q,"object":"event","type":"invoice.paid","livemode":true,"data":{"object":{"id":"in_1"}}}`, id)})
	}
	// this also opens the connection to the database
	if got := valid("evt_before"); got.status != http.StatusAccepted {
		t.Fatalf("before the flood: got %d, want 202", got.status)
	}
	begin := time.Now()
	offered := rate.NewLimiter(10_000, 100)
	stop, end := context.WithCancel(t.Context())
	var refused atomic.Int64
	var wg sync.WaitGroup
	handler := b.srv.Handler()
	for w := range 4 {
		wg.Go(func() {
			for n := 0; offered.Wait(stop) == nil; n++ {
				body := fmt.Appendf(nil, `{"id":"evt_forged_%d_%d","object":"event","type":"invoice.paid","livemode":true}`, w, n)
				r := request(t, "POST", "/hooks/shop", bytes.NewReader(body), "Stripe-Signature", fmt.Sprintf("t=%d,v1=%064x", time.Now().Unix(), n))
				handler.ServeHTTP(discard{http.Header{}}, r)
				refused.Add(1)
			}
		})
	}
	var took []time.Duration
	// Last long enough for a flood: a slow machine forges slowly.
	for i := 0; i < 20 || refused.Load() < 1000; i++ {
		sent := time.Now()
		if got := valid(fmt.Sprintf("evt_%d", i)); got.status != http.StatusAccepted {
			t.Errorf("valid delivery %d: got %d, want 202", i, got.status)
		}
		took = append(took, time.Since(sent))
	}
	end()
	wg.Wait()
	lasted := time.Since(begin)
	// Use the median, because other tests share the cores.
	slices.Sort(took)
	if median := took[len(took)/2]; median > time.Second {
		t.Errorf("valid deliveries took %v, want a median under 1 s", took)
	}
	cancel()
	<-kept
	if n := b.count(t, `select count(*) from rejections`); n == 0 || n > rejection.PerSource {
		t.Errorf("%d rejections are kept of %d, want some and at most %d", n, refused.Load(), rejection.PerSource)
	}
	// Allow one write per half second, plus the first and the last.
	if n, most := b.count(t, `select count(distinct xmin::text) from rejections`), int(2*lasted.Seconds())+3; n > most {
		t.Errorf("%d writes in %s, want at most %d", n, lasted, most)
	}
	if n := b.count(t, `select count(*) from receipts`); n != len(took)+1 {
		t.Errorf("%d receipts, want only the %d valid deliveries", n, len(took)+1)
	}
}
