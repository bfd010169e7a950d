package e2e_test

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/pawlhq/pawl/schema/schematest"
)

// Ingress and worker load their configuration several times while events arrive. No delivery is refused, each effect
// happens once, and the audit trail contains each reload of the worker.
func TestReload_UnderLoad_NothingLostOrRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in, worker := w.ingress(""), w.worker("")
	events := newInvoices(t, schematest.OrLong(20, 100))
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.sender.postAll(events, 2, in.url)
	}()
	const reloads = 3
	for i := range reloads {
		for _, p := range []*process{in.process, worker} {
			if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			await(t, patience, func() error {
				if n := len(p.logged("the new configuration is used")); n != i+1 {
					return fmt.Errorf("%s has used %d new configurations, want %d", p.name, n, i+1)
				}
				return nil
			})
		}
	}
	<-done
	for _, e := range events {
		if !w.sender.acknowledged(e) {
			t.Errorf("the delivery of %s was not acknowledged", e.ID)
		}
	}
	w.awaitStatus(recovery, events, processed)
	w.check(nil)
	if n := w.count(`select count(*) from operator_actions where action = 'reload-configuration'`); n != reloads {
		t.Errorf("the audit trail contains %d reloads, want %d", n, reloads)
	}
	for _, p := range []*process{in.process, worker} {
		p.terminate()
		if code := p.exit(patience); code != 0 {
			t.Errorf("%s ended with code %d", p.name, code)
		}
	}
}
