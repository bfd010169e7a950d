package flowtest

import (
	"context"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/receipt"
)

var waits = regexp.MustCompile(`(?m)^effects: .*: waits for customer cus_`)

// The readiness page shows the database locks that effects wait for. The ingress stays ready, so deliveries continue.
func TestReadyz_AccountLocked_SaysSinceWhen(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close() // free the port so that the rig can use it
	r := newRig(t, func(c *config.Config) { c.Ops.Worker = address })
	if err := r.CheckSchema(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- r.RunOps(ctx, process.Worker) }()
	first := purchase(t, "locked", "invoice.paid", "starter")
	r.receive(first)
	r.status(first, receipt.Processed)
	holder, err := r.IntakePool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Rollback(context.Background()) }()
	if _, err := holder.Exec(t.Context(), `set local idle_in_transaction_session_timeout = 0; select from accounts where id = 'acct-locked' for update`); err != nil {
		t.Fatal(err)
	}
	second := rename(t, purchase(t, "locked", "invoice.payment_succeeded", "starter"), first.ID+"_second")
	r.receive(second)
	r.until("readyz says what effects wait for", func() bool {
		resp, err := http.Get("http://" + address + "/readyz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		said := string(answer)
		return err == nil && resp.StatusCode == http.StatusOK && strings.Contains(said, "\ntemporal: ") && waits.MatchString(said)
	})
	r.status(second, receipt.Retrying)
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.status(second, receipt.Processed)
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
