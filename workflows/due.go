package workflows

import (
	"net/url"
	"strings"
	"time"

	"github.com/pawlhq/pawl/workflows/workflowid"
)

// DueInput identifies a scheduled run: the account, and the time at which its actions became due.
type DueInput struct {
	Account string
	At      time.Time
	// Compensated is set if the event was compensated before. The status of the receipt then does not change.
	Compensated bool `json:",omitempty"`
}

const (
	duePrefix = "due:"
	// dueTime is the format of the time in a workflow ID. It contains no colon, because colons separate the parts of an
	// ID.
	dueTime = "20060102T150405.999999Z"
)

// id returns the workflow ID of the run, e.g. "due:live:acme:20260322T000010Z".
func (d DueInput) id(mode string) string {
	return workflowid.Bound(duePrefix + mode + ":" + d.object())
}

func (d DueInput) object() string {
	return workflowid.Escape(d.Account, ":") + ":" + d.At.UTC().Format(dueTime)
}

// DueOf parses the workflow ID of a scheduled run. It returns false for any other workflow ID.
func DueOf(workflowID string) (*DueInput, bool) {
	parts := strings.Split(workflowID, ":")
	if len(parts) != 4 || parts[0]+":" != duePrefix {
		return nil, false
	}
	account, err := url.PathUnescape(parts[2])
	if err != nil {
		return nil, false
	}
	at, err := time.Parse(dueTime, parts[3])
	return &DueInput{Account: account, At: at}, err == nil
}
