package event

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
)

// verdict summarizes the state of an event in one sentence.
func verdict(e *Evidence) string {
	r := e.Receipt
	var done, undone, doubtful, skipped []string
	for _, f := range e.Effects {
		switch f.State {
		case "done":
			done = append(done, f.Kind)
		case "skipped":
			skipped = append(skipped, f.Kind)
		case "uncertain":
			doubtful = append(doubtful, f.Kind)
		case "failed", "claimed":
			undone = append(undone, f.Kind)
		}
	}
	for _, f := range e.Next.Pending {
		undone = append(undone, f.Kind)
	}
	var text string
	switch receipt.Status(r.Status) {
	case receipt.Received:
		text = "It is stored and has not run yet"
	case receipt.Processing:
		text = "It is in progress"
	case receipt.Retrying:
		text = "pawl retries it automatically: " + cmp.Or(r.Reason, e.Next.Message)
	case receipt.NeedsReview, receipt.Dead:
		text = "It waits for a decision: " + cmp.Or(r.Reason, r.LastError, r.Status)
	case receipt.Processed:
		text = "It is done" + because(r.Open())
		if e.Unbooked != nil {
			text += "; its money is not booked: " + e.Unbooked.Reason()
		}
	case receipt.Compensated:
		text = "It was compensated" + because(strings.TrimPrefix(r.Reason, r.Status+": "))
	case receipt.Ignored:
		text = "It was ignored" + because(r.Reason)
	default:
		text = "It is " + r.Status
	}
	for _, part := range []struct {
		kinds []string
		is    string
	}{{done, "done"}, {undone, "not done"}, {doubtful, "may have happened"}, {skipped, "skipped"}} {
		if len(part.kinds) > 0 && (part.is != "done" || open(r) || len(skipped) > 0) {
			slices.Sort(part.kinds)
			text += "; " + part.is + ": " + strings.Join(slices.Compact(part.kinds), ", ")
		}
	}
	if len(e.Undelivered) > 0 {
		text += "; " + undelivered(e.Undelivered)
	}
	for _, p := range e.PendingDecisions {
		text += "; " + p.Verb + ", requested by " + p.AskedBy + ", waits for a second person"
	}
	return strings.TrimRight(text, ".") + "."
}

// undelivered lists the types of the published events that a destination has not accepted, and the time of the oldest
// event.
func undelivered(list []timeline.Undelivered) string {
	oldest := list[0]
	types := make([]string, len(list))
	for i, u := range list {
		types[i] = u.Type
		if u.Since.Before(oldest.Since) {
			oldest = u
		}
	}
	slices.Sort(types)
	to := cmp.Or(oldest.OnlyTo, "every destination")
	if name, why, found := strings.Cut(strings.TrimPrefix(oldest.Error, "destination "), ": "); found {
		return fmt.Sprintf("not yet delivered to %s since %s: %s (%s)", name, oldest.Since.UTC().Format(time.RFC3339),
			strings.Join(slices.Compact(types), ", "), why)
	}
	return fmt.Sprintf("not yet delivered to %s since %s: %s", to, oldest.Since.UTC().Format(time.RFC3339),
		strings.Join(slices.Compact(types), ", "))
}
