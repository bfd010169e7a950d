package event

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/cmd/internal/operator/label"
	"github.com/pawlhq/pawl/cmd/internal/operator/obstacle"
	"github.com/pawlhq/pawl/schema/money"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows/plan"
)

// verdict summarizes the state of an event in sentences: the result with the amount, the cause, and the parts that are
// done. It contains no code, key or ID of pawl.
func verdict(e *Evidence) string {
	facts := sortOut(e)
	sentences := []string{facts.lead(e)}
	for _, p := range e.UnmappedPrices {
		sentences = append(sentences, obstacle.Unmapped(p))
	}
	for _, s := range [][]string{facts.causes, facts.rest(e)} {
		sentences = append(sentences, s...)
	}
	if e.Unbooked != nil {
		sentences = append(sentences, "The money is not booked: "+e.Unbooked.Reason())
	}
	if len(e.Undelivered) > 0 {
		sentences = append(sentences, undelivered(e.Undelivered))
	}
	for _, p := range e.PendingDecisions {
		sentences = append(sentences, "Requested by "+p.AskedBy+": "+label.Verb(p.Verb),
			"A second person must confirm it")
	}
	var text strings.Builder
	for _, s := range sentences {
		if s = strings.TrimRight(s, ". "); s != "" {
			text.WriteString(upperFirst(s) + ". ")
		}
	}
	return strings.TrimSpace(text.String())
}

// findings are the effects of an event by their state.
type findings struct {
	// undone contains clauses such as "the finance entry of 49.00 USD is not booked", and doubts clauses such as "it is
	// not known whether the receipt was sent". causes contains the last answers of the sinks.
	undone, doubts, causes []string
	// done and skipped contain the labels of the kinds that a customer or a colleague can notice.
	done, skipped []string
}

func sortOut(e *Evidence) (f findings) {
	for _, x := range e.Effects {
		kind := label.StepOf(x.Kind, x.Key)
		switch x.State {
		case "done":
			if isOutside(x.Kind) {
				f.done = appendOnce(f.done, kind.Name)
			}
		case "skipped":
			if isOutside(x.Kind) {
				f.skipped = appendOnce(f.skipped, kind.Name)
			}
		case "uncertain":
			f.doubts = appendOnce(f.doubts, fmt.Sprintf("it is not known whether %s was %s", kind.Subject, kind.Done))
			f.causes = appendOnce(f.causes, answerOf(x.Kind, x.Key, x.LastError))
		case "failed", "claimed":
			if x.MayHaveHappened { // an attempt got no answer
				f.doubts = appendOnce(f.doubts,
					fmt.Sprintf("it is not known whether %s was %s", kind.Subject, kind.Done))
			} else {
				f.undone = appendOnce(f.undone, notDone(kind, e.Receipt.Amount, e.Receipt.Currency))
			}
			f.causes = appendOnce(f.causes, answerOf(x.Kind, x.Key, x.LastError))
		}
	}
	for _, x := range e.Next.Pending {
		amount, currency := x.Amount, x.Currency
		if amount == nil {
			amount, currency = e.Receipt.Amount, e.Receipt.Currency
		}
		f.undone = appendOnce(f.undone, notDone(label.StepOf(x.Kind, x.Key), amount, currency))
	}
	slices.Sort(f.done) // parallel steps end in any order
	slices.Sort(f.skipped)
	return f
}

// lead returns the first sentence: the state of the event, and the effects that are not done.
func (f findings) lead(e *Evidence) string {
	r := e.Receipt
	status := receipt.Status(r.Status)
	open := strings.Join(append(slices.Clone(f.undone), f.doubts...), ", and ")
	switch status {
	case receipt.Received:
		if r.ReasonCode == receipt.Paused {
			return "Waiting: the source is paused"
		}
		return "Stored, and not started yet"
	case receipt.Processing:
		return withClause("In progress", open)
	case receipt.Retrying:
		return withClause("pawl retries it automatically", firstOf(open, label.Explain(r.Reason), e.Next.Message))
	case receipt.NeedsReview, receipt.Dead:
		if review, ok := reviewOf(&r); ok {
			return withClause("Needs a decision", firstOf(label.Clause(r.Reason), review.Asks))
		}
		if len(f.undone) == 0 && len(f.doubts) > 0 {
			return withClause("Unclear", open)
		}
		return withClause("Not finished", firstOf(open, label.Clause(r.Reason), r.LastError))
	case receipt.Processed:
		reason := r.Open()
		switch {
		case len(e.UnmappedPrices) > 0 && r.ReasonCode == receipt.UnknownPrice:
			return "" // the sentences about the prices explain more
		case NotGranted(&r):
			return label.Explain(reason)
		}
		return withClause("Done", label.Clause(reason))
	case receipt.Compensated:
		return withClause("Taken back", strings.TrimPrefix(r.Reason, r.Status+": "))
	case receipt.Ignored:
		if r.ReasonCode == activities.CodeAccountNotMapped {
			return notMapped(&r)
		}
		return withClause("Ignored", label.Clause(r.Reason))
	}
	return label.Word(r.Status)
}

// notMapped explains an event that is ignored because its connected account is not mapped.
func notMapped(r *timeline.Receipt) string {
	says := "Ignored: connected account " + r.Account + " is not mapped to an account"
	if r.Amount != nil {
		says += ". " + money.Format(*r.Amount, r.Currency) + " paid"
	}
	return says + ". Map the connected account; pawl then runs its stored events"
}

// NotGranted reports whether an event is done, and a customer did not get the ordered access.
func NotGranted(r *timeline.Receipt) bool {
	return r.Status == string(receipt.Processed) && r.Open() != "" &&
		(r.ReasonCode == "withheld" || r.ReasonCode == receipt.UnknownPrice)
}

// rest returns the sentences about the effects that are done or skipped.
func (f findings) rest(e *Evidence) (sentences []string) {
	status := receipt.Status(e.Receipt.Status)
	if len(f.done) > 0 && status != receipt.Compensated && status != receipt.Received {
		if are := list(f.done); len(f.done) > 1 {
			sentences = append(sentences, are+" are done")
		} else {
			sentences = append(sentences, are+" is done")
		}
	}
	if len(f.skipped) > 0 {
		sentences = append(sentences, "Skipped: "+list(f.skipped))
	}
	return sentences
}

// notDone returns the clause that an effect is not done.
func notDone(kind label.Kind, amount *int64, currency string) string {
	subject := kind.Subject
	if kind.Money && amount != nil {
		subject += " of " + money.Format(*amount, currency)
	}
	return subject + " is not " + kind.Done
}

// answerOf returns the last answer of the sink of an effect as a sentence.
func answerOf(kind, key, failure string) string { return label.Answer(TargetOf(kind, key), failure) }

// TargetOf returns the sink of an effect. For a relay, it is the destination.
func TargetOf(kind, key string) string {
	sink := plan.SinkOf(kind)
	if sink == plan.SinkDestinations {
		return sink + ":" + key[strings.LastIndex(key, ":")+1:]
	}
	return sink
}

// isOutside reports whether an effect changes another system. Steps within pawl's database and reads from Stripe do
// not.
func isOutside(kind string) bool {
	return plan.SinkOf(kind) != plan.SinkDatabase && plan.SinkOf(kind) != plan.SinkStripe
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
	to, why := oldest.OnlyTo, ""
	if name, reason, found := strings.Cut(strings.TrimPrefix(oldest.Error, "destination "), ": "); found {
		to, why = name, " ("+reason+")"
	}
	if to == "" {
		to = "every destination"
	}
	return fmt.Sprintf("not yet delivered to %s since %s: %s%s", to, oldest.Since.UTC().Format(time.RFC3339),
		strings.Join(slices.Compact(types), ", "), why)
}

func withClause(state, clause string) string {
	if clause == "" {
		return state
	}
	return state + ": " + clause
}

func appendOnce(list []string, text string) []string {
	if text == "" || slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}

// list returns "A", "A and B", or "A, B and C".
func list(names []string) string {
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " and " + names[last]
	}
	return strings.Join(names, "")
}

func firstOf(texts ...string) string {
	i := slices.IndexFunc(texts, func(s string) bool { return s != "" })
	if i < 0 {
		return ""
	}
	return texts[i]
}

func upperFirst(text string) string {
	if strings.HasPrefix(text, "pawl ") {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
