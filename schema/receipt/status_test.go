package receipt_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/schema/receipt"
)

// The table contains all transitions. A row is the old status, and the columns are the new statuses in the order of
// receipt.Statuses. "x" means allowed, "." means refused, and "=" means no change.
func TestNext_AllPairs(t *testing.T) {
	t.Parallel()
	graph := map[receipt.Status]string{
		//                    recv proc retr need dead done comp ign
		receipt.Received:    "=    x    x    x    x    x    x    x",
		receipt.Processing:  ".    =    x    x    x    x    x    x",
		receipt.Retrying:    ".    x    =    x    x    x    x    x",
		receipt.NeedsReview: "x    x    x    =    x    x    x    x",
		receipt.Dead:        "x    x    x    x    =    x    x    x",
		receipt.Processed:   "x    x    x    x    x    =    x    .",
		receipt.Compensated: "x    x    x    x    x    x    =    .",
		receipt.Ignored:     "x    .    .    .    .    .    .    =",
	}
	if len(graph) != len(receipt.Statuses) {
		t.Fatalf("graph has %d rows, want %d", len(graph), len(receipt.Statuses))
	}
	for from, row := range graph {
		for i, cell := range strings.Fields(row) {
			to := receipt.Statuses[i]
			err := receipt.Next(from, to)
			if want := cell != "."; (err == nil) != want {
				t.Errorf("%s -> %s: got error %v, want allowed %t", from, to, err, want)
			}
			var refused *receipt.TransitionError
			if err != nil && (!errors.As(err, &refused) || refused.From != from || refused.To != to) {
				t.Errorf("%s -> %s: error %v does not name the pair", from, to, err)
			}
		}
	}
}

func TestNext_Unknown_Refused(t *testing.T) {
	t.Parallel()
	if receipt.Next("", "") == nil || receipt.Next("done", "done") == nil || receipt.Next(receipt.Received, "done") == nil {
		t.Error("an unknown status was accepted")
	}
}

// A reason begins with a code; other text contains no code.
func TestReasonCode(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	id := mustInsert(t, s, delivery(event("evt_1")))[0].ReceiptID
	for reason, want := range map[string]string{
		"":                             "",
		`type_ignored: "invoice.paid"`: receipt.TypeIgnored,
		"not_json":                     "not_json",
		"run_terminated: it was needs_review: plan_unknown: x": receipt.RunTerminated,
		"receipt-email: 503 Service Unavailable":               "",
		"lines.data: it is missing":                            "",
		"compensated; the timeline shows the reason":           "",
		"Type_not_wanted: x":                                   "",
		"_x: y":                                                "",
		"type_ignored:x":                                       "",
	} {
		if err := s.Transition(t.Context(), id, receipt.NeedsReview, reason, ""); err != nil {
			t.Fatal(err)
		}
		if r := mustGet(t, s, id); r.Reason != reason || r.ReasonCode != want {
			t.Errorf("%q: got reason %q, code %q; want code %q", reason, r.Reason, r.ReasonCode, want)
		}
	}
}
