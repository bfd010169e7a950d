package effect

import (
	"go.temporal.io/sdk/temporal"

	"github.com/pawlhq/pawl/schema/event"
)

// TypeForeign is the type of an activity's error when its input contradicts the receipt. It stands in histories.
const TypeForeign = "NotOfItsReceipt"

// Foreign returns the error of an activity whose input is not what the receipt of the event says. pawl starts no such
// run: somebody else has written to Temporal. It is not tried again, and its run fails.
func Foreign(of event.Ref, cause error) error {
	return temporal.NewNonRetryableApplicationError("refused: this is not what receipt "+of.ReceiptID+" says",
		TypeForeign, cause)
}

// Check returns [Foreign] if mode is not that of the call's event.
func (c Call) Check(mode string) error {
	if mode != c.Mode {
		return Foreign(c.Ref, nil)
	}
	return nil
}
