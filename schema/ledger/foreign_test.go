package ledger_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/schema/ledger"
)

// A client with direct access to Temporal can start any effect. The ledger refuses an effect that does not match its
// receipt, or has a key of the other mode, so that a test event moves no live money. Other claims in the same commit
// are granted.
func TestClaim_NotOfItsReceipt_Refused(t *testing.T) {
	b := setup(t)
	for name, change := range map[string]func(*ledger.Claim){
		"mode":           func(c *ledger.Claim) { c.Mode = "test" },
		"provider":       func(c *ledger.Claim) { c.Provider = "paddle" },
		"account":        func(c *ledger.Claim) { c.Account = "acct_9" },
		"event":          func(c *ledger.Claim) { c.EventID = "evt_2" },
		"type":           func(c *ledger.Claim) { c.Type = "charge.refunded" },
		"receipt":        func(c *ledger.Claim) { c.ReceiptID = uuid.NewString() },
		"key's mode":     func(c *ledger.Claim) { c.Key = "receipt-email:stripe:test:in_1" },
		"mode and key":   func(c *ledger.Claim) { c.Mode, c.Key = "test", "receipt-email:stripe:test:in_1" },
		"key's end":      func(c *ledger.Claim) { c.Key = "receipt-email:stripe:test:in_1:stripe:live:" },
		"key's provider": func(c *ledger.Claim) { c.Key = "receipt-email:paddle:live:in_1" },
	} {
		c := b.claim("evt_1", 0)
		change(&c)
		if g, err := b.store.Claim(t.Context(), c); !errors.Is(err, ledger.ErrForeign) || g.Granted {
			t.Errorf("%s: claim: %+v, %v", name, g, err)
		}
		_, err := b.store.InTx(t.Context(), c, ledger.Finish{StartedAt: time.Now()}, func(context.Context, ledger.Tx) (json.RawMessage, error) {
			t.Errorf("%s: it is done", name)
			return nil, nil
		})
		if !errors.Is(err, ledger.ErrForeign) {
			t.Errorf("%s: in a transaction: %v", name, err)
		}
		if err := b.store.Skip(t.Context(), c, "no"); !errors.Is(err, ledger.ErrForeign) {
			t.Errorf("%s: skip: %v", name, err)
		}
		if _, err := b.store.Assert(t.Context(), c, ledger.Assertion{Result: json.RawMessage(`{}`)}); !errors.Is(err, ledger.ErrForeign) {
			t.Errorf("%s: assert: %v", name, err)
		}
	}
	var n int
	if err := b.pool.QueryRow(t.Context(), `select count(*) from effects`).Scan(&n); err != nil || n != 0 {
		t.Errorf("the ledger has %d effects, %v; want none", n, err)
	}
	if g := b.grant(b.claim("evt_1", 0)); !g.Granted {
		t.Errorf("its own: %+v", g)
	}
	// The refusal also applies if the effect has failed and may be repeated.
	b.finish(ledger.Finish{Key: b.claim("evt_1", 0).Key, Token: 1, State: ledger.Failed, Class: ledger.Permanent})
	again := b.claim("evt_1", 1)
	again.Type = "charge.refunded"
	if g, err := b.store.Claim(t.Context(), again); !errors.Is(err, ledger.ErrForeign) || g.Granted {
		t.Errorf("a later round: %+v, %v", g, err)
	}
}
