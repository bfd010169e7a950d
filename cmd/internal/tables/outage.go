package tables

import (
	"fmt"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/label"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/schema/breaker"
)

// Outages lists outages of sinks.
func Outages(outages []breaker.Outage) output.Table {
	return output.Rows("OUTAGE|SINK|FROM|TO|DURATION|CAUSE|EVENTS|ACCOUNTS|MONEY", outages,
		func(o breaker.Outage) []any {
			var until, events, accounts any = output.Badge("still down"), o.Events, o.Accounts
			if o.Until != nil {
				until = *o.Until
			}
			sums := decide.Sums(o.Money)
			if !o.Complete { // the list counts only the newest events
				events, accounts = fmt.Sprintf("more than %d", o.Events), fmt.Sprintf("at least %d", o.Accounts)
				if sums != "" {
					sums = "at least " + sums
				}
			}
			cause := o.Reason
			if o.Answer != "" {
				cause += " – " + o.Answer // the form that label.Answer parses
			}
			return []any{o.ID, label.Sink(o.Sink), o.Since, until,
				output.Roughly(time.Duration(o.Seconds) * time.Second), label.Answer(o.Sink, cause), events, accounts,
				sums}
		})
}
