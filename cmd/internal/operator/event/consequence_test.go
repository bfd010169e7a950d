package event

import (
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/operator/money"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// Each answer to each review describes the customer, the money, the e-mails and the way back.
func TestConsequences_EveryReview_BothAnswers(t *testing.T) {
	t.Parallel()
	for _, r := range workflows.Reviews() {
		for _, verb := range []string{workflows.UpdateApprove, workflows.UpdateReject} {
			if got := consequencesOf[r.Stage][verb]; len(got) != 4 {
				t.Errorf("%s of %s has %d consequences, want 4", verb, r.Code, len(got))
			}
		}
	}
}

// A payment without an account was never booked. The consequences of both answers state that it is not booked.
func TestConsequences_UnknownAccount_NotBooked(t *testing.T) {
	t.Parallel()
	r := &timeline.Receipt{Status: string(receipt.NeedsReview), ReasonCode: money.ReviewUnknown,
		Waits: &receipt.Waits{Decisions: []string{workflows.UpdateApprove, workflows.UpdateReject}}}
	for _, verb := range []string{workflows.UpdateApprove, workflows.UpdateReject} {
		got := explain(r, verb)
		if len(got) != 4 || !strings.HasPrefix(got[1].Text, "The payment is not booked") {
			t.Errorf("%s: %+v", verb, got)
		}
	}
}
