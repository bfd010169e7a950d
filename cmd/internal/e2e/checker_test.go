package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The test damages a correct state in each way, and checks that the checker finds the damage.
func TestChecker_Damage_Found(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.ingress("")
	worker := w.worker("")
	e := newInvoice(t, nil)
	w.deliver(in, e)
	w.awaitStatus(patience, []invoice{e}, processed)
	worker.kill() // a running worker would repair some of the damage
	w.check(nil)

	for _, damage := range []struct{ do, undo, finds string }{
		{`update receipts set status = 'dead'`, `update receipts set status = 'processed'`, "is dead"},
		{`update receipts set duplicates = 1`, `update receipts set duplicates = 0`, "1 duplicates counted"},
		{`update receipts set event_id = event_id || 'x'`, `update receipts set event_id = rtrim(event_id, 'x')`, "was acknowledged and is not there"},
		{`insert into runs (workflow_id, run_id, receipt_id, kind) select 'x', 'x', id, 'original' from receipts`, `delete from runs where run_id = 'x'`, "runs of"},
		{`update effects set state = 'claimed' where kind = 'finance-export'`, `update effects set state = 'done' where kind = 'finance-export'`, `"claimed", want "done"`},
		{`update effects set state = 'failed' where kind = 'receipt-email'`, `update effects set state = 'done' where kind = 'receipt-email'`, `"failed", want "done"`},
		{`update effects set key = 'x' || key where kind = 'finance-export'`, `update effects set key = ltrim(key, 'x') where kind = 'finance-export'`, "the ledger knows nothing of"},
		{`update outbox set published_at = null`, `update outbox set published_at = now()`, "published false"},
		{`update invoices set status = 'open'`, `update invoices set status = 'paid'`, "our tables hold 0"},
		{`update workspaces set plan = 'pro'`, `update workspaces set plan = 'enterprise'`, "our tables hold 0"},
		{`update tasks set state = 'done'`, `update tasks set state = 'open'`, "our tables hold 0"},
	} {
		w.exec(damage.do)
		if found := strings.Join(w.findings(nil), "\n"); !strings.Contains(found, damage.finds) {
			t.Errorf("after %q the checker found %q, want %q", damage.do, found, damage.finds)
		}
		w.exec(damage.undo)
	}

	for service, journaled := range map[string]struct{ line, finds string }{
		"finance":    {fmt.Sprintf(`{"key":"finance-export:stripe:live:%s","first":true,"account":"","body":{}}`, e.invoice), "applied 2 times"},
		"workspaces": {fmt.Sprintf(`{"key":"provision-workspace:stripe:live:%s:v1","first":false,"account":"","body":{}}`, e.account), "with other bytes"},
		"email":      {fmt.Sprintf(`{"key":"x","first":true,"account":"","body":{"to":"","subject":"Receipt for invoice %s"}}`, e.number), "mailed 2 times"},
		"events":     {`{"key":"x","first":true,"account":"","body":{}}`, "not in the outbox"},
	} {
		w.tamper(service, func(whole string) string { return whole + journaled.line + "\n" }, journaled.finds)
	}
	for service, finds := range map[string]string{"finance": ": false", "workspaces": ": false", "email": "0 mails went out", "events": "taken by the destination false"} {
		w.tamper(service, func(string) string { return "" }, finds)
	}
	w.check(nil)
}

// exec executes a statement that damages or repairs rows.
func (w *world) exec(sql string) {
	w.t.Helper()
	if tag, err := w.pool.Exec(w.t.Context(), sql); err != nil || tag.RowsAffected() == 0 {
		w.t.Fatalf("%s: %v, %v", sql, tag, err)
	}
}

// tamper changes a journal, runs the checker, and restores the journal.
func (w *world) tamper(service string, change func(string) string, finds string) {
	w.t.Helper()
	path := filepath.Join(w.dir, "sandbox", service+".jsonl")
	whole, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(change(string(whole))), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if found := strings.Join(w.findings(nil), "\n"); !strings.Contains(found, finds) {
		w.t.Errorf("after tampering with %s.jsonl the checker found %q, want %q", service, found, finds)
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		w.t.Fatal(err)
	}
}
