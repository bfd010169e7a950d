package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/schema/timeline"
)

// What comes next stands there once, whatever it is: a try that Temporal has, or what the clock does.
func TestReceivedRows_Next_SaidOnce(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)
	key := "finance-export:stripe:test:in_1"
	due := timeline.Due{At: at, Why: "settle", Object: "sub_1"}
	for name, next := range map[string]operator.Next{
		"a try":     {At: &at, Says: key + " is tried again, attempt 4", Tries: []operator.Try{{Key: key, Attempt: 4, At: &at}}},
		"the clock": {At: &at, Says: due.String(), Due: []timeline.Due{due}},
	} {
		rows := fmt.Sprint(receivedRows(evidenceOf(next)))
		if n := strings.Count(rows, output.Time(at)); n != 1 {
			t.Errorf("%s: its time stands there %d times: %s", name, n, rows)
		}
	}
}

// An effect that failed and is tried again by itself is not one that has failed for good.
func TestUndoneRows_TriedAgain_NotFailed(t *testing.T) {
	t.Parallel()
	e := evidenceOf(operator.Next{Tries: []operator.Try{{Key: "finance-export:1"}}})
	e.Effects = []timeline.Effect{{Key: "finance-export:1", Kind: "finance-export", State: "failed"}, {Key: "receipt-email:1", Kind: "receipt-email", State: "failed"}}
	rows := undoneRows(e)
	if rows[1][1] != "tried again" || rows[2][1] != "failed" {
		t.Errorf("rows %v", rows)
	}
}

func TestHeadOf_Reason_SaidOnce(t *testing.T) {
	t.Parallel()
	e := evidenceOf(operator.Next{})
	e.Receipt.Status, e.Receipt.Reason = "compensated", "compensated: provision-workspace was refused"
	if got := headOf(e, "")[1][1]; got != "compensated: provision-workspace was refused" {
		t.Errorf("status %q", got)
	}
	// An error that the reason tells already is not told again.
	e.Receipt.LastError = "start stripe:evt_1: " + e.Receipt.Reason
	if rows := fmt.Sprint(headOf(e, "")); strings.Contains(rows, "last error") {
		t.Errorf("%s", rows)
	}
	e.Receipt.LastError = "the database is away"
	if rows := fmt.Sprint(headOf(e, "")); !strings.Contains(rows, "the database is away") {
		t.Errorf("%s", rows)
	}
}

func evidenceOf(next operator.Next) *operator.Evidence {
	e := &operator.Evidence{Next: next}
	e.Receipt.ReceivedAt = time.Date(2026, 11, 23, 7, 0, 0, 0, time.UTC)
	e.Deliveries = []timeline.Delivery{{ReceivedAt: e.Receipt.ReceivedAt, Source: "billing"}}
	return e
}
