package tables

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/cmd/internal/operator/label"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
)

// EventHead returns the identity and state of an event.
func EventHead(e *event.Evidence, page string) output.Table {
	r := e.Receipt
	head := output.Table{
		{"event", r.EventID + "  " + r.Type},
		{"status", r.Status + WithReason(r.Status, r.Open())},
		{"source", r.Source + " (" +
			strings.Join(slices.DeleteFunc([]string{r.Provider, r.Account, r.Mode, r.APIVersion}, empty), ", ") + ")"},
		{"receipt", eventLink(r.ID)},
	}
	about := slices.DeleteFunc([]string{r.OurAccount, Amount(r.Amount, r.Currency)}, empty)
	if len(about) > 0 {
		head = append(head, []any{"about", strings.Join(about, ", ")})
	}
	if r.RelayOf != "" {
		head = append(head, []any{"relays", r.RelayOf + ", which another source's receipt runs"})
	}
	if r.WorkflowID != "" {
		head = append(head, []any{"workflow", objectLink(r.WorkflowID)})
	}
	if page != "" {
		head = append(head, []any{"Temporal UI", page})
	}
	if r.LastError != "" && (r.Reason == "" || !strings.Contains(r.LastError, r.Reason)) {
		head = append(head, []any{"last error", r.LastError})
	}
	return head
}

// Received returns when the event arrived, how often its effects were attempted, and when the next attempt is.
func Received(e *event.Evidence) output.Table {
	first := e.Receipt.ReceivedAt
	if len(e.Deliveries) > 0 {
		first = e.Deliveries[0].ReceivedAt
	}
	tries := 0
	for _, f := range e.Effects {
		if f.SatisfiedBy == "" {
			tries += f.Attempts
		}
	}
	deliveries := strconv.Itoa(len(e.Deliveries))
	if e.Receipt.Duplicates > 0 {
		deliveries += ", of them " + output.Plural(e.Receipt.Duplicates, "duplicate")
	}
	rows := output.Table{
		{"first received", first},
		{"deliveries", deliveries},
		{"signature", bytesOf(&e.Event)},
		{"attempts", output.Plural(len(e.Runs), "run") + ", and " + output.Plural(tries, "attempt") + " of steps"},
		{"next", whenNext(e.Next)},
	}
	for _, try := range e.Next.Tries {
		if len(e.Next.Tries) > 1 || e.Next.At == nil || try.At == nil { // otherwise the next step contains it
			rows = append(rows, []any{"", tryLine(try)})
		}
	}
	if e.Next.Unknown != "" {
		rows = append(rows, []any{"", "not known: " + e.Next.Unknown})
	}
	for i, due := range e.Next.Due {
		if i == 0 && e.Next.At != nil && due.At.Equal(*e.Next.At) {
			continue // the next step contains it
		}
		rows = append(rows, []any{"planned", output.Time(due.At) + ": " + due.String()})
	}
	return rows
}

func whenNext(n event.Next) string {
	if n.At == nil {
		return n.Message
	}
	text := output.Time(*n.At)
	if in := time.Until(*n.At).Round(time.Second); in > 0 {
		text += " (in " + in.String() + ")"
	}
	return text + ": " + n.Message
}

func tryLine(t event.Try) string {
	kind, _, _ := strings.Cut(t.Key, ":")
	text := fmt.Sprintf("%s: attempt %d", label.StepOf(kind, t.Key).Name, t.Attempt)
	switch {
	case t.Paused:
		text += " is paused in Temporal"
	case t.At != nil:
		text += " at " + output.Time(*t.At)
	default:
		text += " is under way"
	}
	return text + output.WithReason(label.Answer(event.TargetOf(kind, t.Key), t.Error))
}

// Steps lists every attempt of an event to execute an effect, and the effects that it has not attempted.
func Steps(e *event.Evidence) output.Table {
	rows := output.Table{{"TIME", "STEP", "RESULT", "TARGET", "ANSWER", "TOOK"}}
	attempted := map[string]bool{}
	for _, a := range e.Attempts {
		attempted[a.Key] = true
		answer, took := answerOf(a.Kind, a.Key, a.Error), output.Seconds(a.EndedAt.Sub(a.StartedAt).Seconds())
		if a.Outcome == "already_done" {
			answer, took = "", ""
			if a.By != "" {
				answer = "done by event " + a.By
			}
		}
		rows = append(rows, []any{a.StartedAt, label.StepOf(a.Kind, a.Key).Name, output.Badge(a.Outcome),
			target(a.Kind, a.Key), answer, took})
	}
	for _, f := range e.Effects {
		if !attempted[f.Key] {
			rows = append(rows, []any{f.ClaimedAt, label.StepOf(f.Kind, f.Key).Name, output.Badge(stateNow(f, e.Next)),
				target(f.Kind, f.Key), EffectNote(f), ""})
		}
	}
	for _, f := range e.Next.Pending {
		note := ""
		if f.WaitsFor != "" {
			note = waitsFirst(f.WaitsFor)
		}
		rows = append(rows, []any{nil, label.StepOf(f.Kind, f.Key).Name, output.Badge("not begun"),
			target(f.Kind, f.Key), note, ""})
	}
	if len(rows) == 1 {
		return output.Table{{"No steps"}}
	}
	return rows
}

func target(kind, key string) string { return label.Sink(event.TargetOf(kind, key)) }

func answerOf(kind, key, failure string) string {
	return label.Answer(event.TargetOf(kind, key), failure)
}

// Done returns the effects in a final state.
func Done(e *event.Evidence) output.Table {
	rows := output.Table{{"DONE", "STATE", "ATTEMPTS", "KEY", "NOTE"}}
	for _, f := range e.Effects {
		if atRest(f.State) {
			rows = append(rows, []any{label.StepOf(f.Kind, f.Key).Name, output.Badge(f.State), f.Attempts,
				objectLink(f.Key), EffectNote(f)})
		}
	}
	if len(rows) == 1 {
		return output.Table{{"DONE"}, {"no step"}}
	}
	return rows
}

func atRest(state string) bool {
	return state == "done" || state == "skipped" || state == "compensated"
}

// Undone returns the effects that are not in a final state: pending, uncertain or not begun.
func Undone(e *event.Evidence) output.Table {
	rows := output.Table{{"NOT DONE", "STATE", "ATTEMPTS", "KEY", "NOTE"}}
	for _, f := range e.Effects {
		if !atRest(f.State) {
			rows = append(rows, []any{label.StepOf(f.Kind, f.Key).Name, output.Badge(stateNow(f, e.Next)), f.Attempts,
				objectLink(f.Key), EffectNote(f)})
		}
	}
	for _, f := range e.Next.Pending {
		note := ""
		if f.WaitsFor != "" {
			note = waitsFirst(f.WaitsFor)
		}
		rows = append(rows, []any{label.StepOf(f.Kind, f.Key).Name, output.Badge("not begun"), 0, objectLink(f.Key),
			note})
	}
	if len(rows) == 1 {
		return output.Table{{"NOT DONE"}, {"no open steps"}}
	}
	return rows
}

// stateNow returns the state of an effect. For a failed effect it adds whether pawl retries it.
func stateNow(f timeline.Effect, n event.Next) string {
	if f.State == "failed" && slices.ContainsFunc(n.Tries, func(t event.Try) bool { return t.Key == f.Key }) {
		return "tried again"
	}
	return f.State
}

// AskedFor returns the decisions of people with person and reason, including actions in Temporal. It adds whether a
// replay would be safe.
func AskedFor(e *event.Evidence) output.Table {
	rows := output.Table{}
	for _, s := range e.Timeline {
		if what, asked := AskedOf(s); asked {
			rows = append(rows, []any{"decision", s.At, label.Verb(what) + ", by " + s.Detail})
		}
	}
	if len(rows) == 0 {
		rows = output.Table{{"decision", "Nobody has stepped in"}}
	}
	return append(rows, []any{"run again?", e.Replay.Message})
}

// AskedOf returns the action that a person took in a step. It returns false for an automatic step.
func AskedOf(s timeline.Entry) (what string, asked bool) {
	if what, asked = strings.CutPrefix(s.What, "operator-"); asked {
		return what, true
	}
	switch s.What {
	case "run-cancelled", "run-terminated", "run-reset":
		return strings.TrimPrefix(s.What, "run-"), true
	}
	return "", false
}

// bytesOf describes which bytes are stored, because several sources may have delivered the event with different bytes.
func bytesOf(e *timeline.Event) string {
	d := e.Counts()
	signed := "not signed"
	switch d.SecretLabel {
	case "":
	case receipt.ByAPI:
		signed = "not signed, read from the provider's API"
	default:
		signed = "valid (secret " + d.SecretLabel + ")"
	}
	if d.Outcome == "replay" {
		signed += "; suspected replay: another event has the same content"
	}
	return signed + ", delivered to source " + d.Source + ", " + output.Time(d.ReceivedAt)
}

// EffectNote explains the state of an effect: why it is not done, whether it may have happened, and which other event
// claimed it.
func EffectNote(f timeline.Effect) string {
	if f.State == "done" && f.SatisfiedBy != "" {
		return "already done by " + f.SatisfiedBy
	}
	var notes []string
	if f.LastError != "" {
		notes = append(notes, answerOf(f.Kind, f.Key, f.LastError))
	}
	if (f.State == "failed" || f.State == "skipped") && f.MayHaveHappened &&
		!strings.Contains(f.LastError, "may have happened") {
		notes = append(notes, "it may have happened: an attempt was not answered")
	}
	if f.SatisfiedBy != "" {
		notes = append(notes, "by "+f.SatisfiedBy)
	}
	return strings.Join(notes, "; ")
}

// Timeline returns the steps of an event. Equal consecutive steps share one row, so that the list stays short.
func Timeline(entries []timeline.Entry) output.Table {
	rows := output.Table{{"TIME", "WHAT", "DETAIL"}}
	for i := 0; i < len(entries); {
		s, times := entries[i], 1
		for i++; i < len(entries) && entries[i].What == s.What && entries[i].Detail == s.Detail &&
			entries[i].Key == s.Key && entries[i].Error == s.Error; i++ {
			times++
		}
		detail := about(s) + output.WithReason(s.Error)
		if times > 1 {
			detail += fmt.Sprintf(" (%d times, until %s)", times, output.Time(entries[i-1].At))
		}
		rows = append(rows, []any{s.At, s.What, detail})
	}
	return rows
}

// about returns the detail of an entry. For a relay it adds the destination, because an event has one relay per
// destination.
func about(s timeline.Entry) string {
	rest, relay := strings.CutPrefix(s.Detail, "relay")
	if !relay || !strings.HasPrefix(s.Key, "relay:") {
		return s.Detail
	}
	return "relay to " + s.Key[strings.LastIndex(s.Key, ":")+1:] + rest
}
