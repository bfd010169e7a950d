package fold_test

import (
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/billing/fold"
)

// The task to answer a dispute has the disputed amount and the deadline.
func TestDispute_Task_AmountAndDeadline(t *testing.T) {
	t.Parallel()
	due := time.Date(2026, 12, 24, 23, 59, 0, 0, time.UTC)
	d := fold.Dispute{Status: "needs_response", Statuses: []string{"needs_response"}, Amount: 4900, Currency: "usd", EvidenceDue: due}
	tasks := d.Tasks()
	if len(tasks) != 1 || tasks[0].Kind != fold.TaskDispute || tasks[0].Money != (fold.Money{Amount: 4900, Currency: "usd"}) || !tasks[0].DueBy.Equal(due) {
		t.Errorf("%+v", tasks)
	}
}
