package report

import (
	"context"
	"fmt"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/schema/notice"
	"github.com/pawlhq/pawl/schema/receipt"
)

// repeated returns the sources that keep delivering parked events.
func (c causes) repeated(ctx context.Context) (list []notice.Cause, err error) {
	found, err := receipt.ReadRepeated(ctx, c.DB)
	for _, r := range found {
		list = append(list, notice.Cause{
			Name: r.Source + ":" + r.Mode, Severity: notice.Ticket, Since: r.Since, Count: r.Events,
			What: fmt.Sprintf("source %s keeps delivering %s: %s within an hour (%s)", r.Source,
				output.Plural(r.Events, "parked event"), output.Plural(r.Deliveries, "delivery"), r.Mode),
			Command: "events show " + operator.ShellWord(r.EventID), Runbook: "parked-event",
		})
	}
	return list, err
}
