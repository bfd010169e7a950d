package event

import (
	"testing"

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
