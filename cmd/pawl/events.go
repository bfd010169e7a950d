package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/timeline"
)

func eventsList(a *app) *cobra.Command {
	var f operator.Events
	cmd := &cobra.Command{Use: "list", Short: "List events, the newest first", Args: noArgument}
	eventFilter(cmd, &f, "only events with this `status`")
	cmd.Flags().StringVar(&f.OlderThan, "older-than", "", "go on behind this `receipt`")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if _, err := uuid.Parse(f.OlderThan); f.OlderThan != "" && err != nil {
			return usagef("--older-than takes the ID of a receipt, as --json shows it")
		}
		return nil
	}
	return list(a, cmd, listing[timeline.Receipt]{
		read: func(ctx context.Context, s *session, limit int) ([]timeline.Receipt, error) {
			f.Limit = limit
			return operator.ListEvents(ctx, s.db, f)
		},
		after: func(r timeline.Receipt) string { return "--older-than " + r.ID },
		table: tables.Receipts, drops: droppedOfEvents,
	})
}

// droppedOfEvents are the columns that a narrow list of events does without.
var droppedOfEvents = []string{"DUPLICATES", "SOURCE", "AMOUNT", "ACCOUNT", "TYPE", "RECEIVED"}

// shownEvent is what `pawl events show` shows: one event, or those that are about an object.
type shownEvent struct {
	*operator.Evidence
	Object string             `json:"object,omitempty"`
	Events []timeline.Receipt `json:"events,omitempty"`
	// page is the event's in the Temporal UI, "" for none.
	page string
}

func eventsShow(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show everything about one event",
		Long: `Show everything about one event. ID is an event ID, a receipt ID, a workflow ID, the key of an effect, or an object
of the provider's, such as an invoice, also by its number: of an object with several events, the list of them.

It shows, in this order: when it was first received; how often it was tried, and when the next try is; the effects that
are done; those that are not done, not begun or in doubt; the decisions, with who and why; and whether a replay would be
safe. Then come the steps in the order of time, a verdict, and the verbs that work. Only Temporal knows the next try: if
it does not answer within three seconds, that is said, and everything else is shown.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("events show needs one ID: of an event, a receipt, a workflow, an effect or an object")
			}
			return nil
		},
	}
	return show(a, cmd, func(ctx context.Context, s *session, args []string) (shownEvent, error) {
		event, err := s.Examine(ctx, args[0])
		if several, is := errors.AsType[*operator.Fault](err); is && several.Object {
			return shownEvent{Object: args[0], Events: several.Receipts}, nil
		}
		if err != nil {
			return shownEvent{}, err
		}
		return shownEvent{Evidence: event, page: s.cfg.Temporal.Page(event.Receipt.WorkflowID, event.LatestRun())}, nil
	}, func(a *app, shown shownEvent) {
		if shown.Evidence == nil {
			a.List(tables.Receipts(shown.Events), droppedOfEvents...)
			return
		}
		writeEvidence(a, shown.Evidence, shown.page)
	})
}

// writeEvidence puts one event on one screen: its head, the answers to the questions that are asked first, every step,
// a verdict, and the choices. page is its run's in the Temporal UI, "" for none.
func writeEvidence(a *app, e *operator.Evidence, page string) {
	for _, part := range [][][]string{tables.EventHead(e, page), tables.Received(e), tables.Done(e), tables.Undone(e),
		tables.AskedFor(e), tables.Timeline(e.Timeline)} {
		a.Table(part)
		fmt.Fprintln(a.out)
	}
	fmt.Fprintf(a.out, "verdict: %s\n", output.Clean(e.Verdict))
	head := "What can be done:"
	if e.Parked() {
		head = "What can be done, and goes into the audit trail with who and why:"
	}
	a.writeChoices(head, e.Choices)
}

// writeChoices writes what can be done about an event as commands for a shell, with what each does behind a "#".
func (a *app) writeChoices(head string, choices []operator.Choice) {
	if len(choices) == 0 {
		return
	}
	rows := [][]string{{head}}
	for _, c := range choices {
		rows = append(rows, []string{"  " + a.configured(c).Line(), "# " + c.Does})
	}
	a.Table(rows)
}

// configured is a choice with the configuration of this call, so that it works where it is pasted.
func (a *app) configured(c operator.Choice) operator.Choice {
	if c.Command[0] == "pawl" && a.configFile != defaultConfig {
		c.Command = slices.Insert(slices.Clone(c.Command), 1, "--config", a.configFile)
	}
	return c
}

// shownPayload is how much of a payload is written to a screen.
const shownPayload = 64 << 10

func eventsBody(a *app) *cobra.Command {
	var reveal bool
	var out string
	d := decision{Decision: operator.Decision{Verb: operator.VerbReveal}}
	cmd := &cobra.Command{
		Use: "body ID", Short: "Show the payload of an event, masked unless asked otherwise",
		Args: oneID,
		Long: `Show the payload that was kept of an event. Possible personal data is masked: shown are the shape, true, false and
null, IDs of Stripe's and UUIDs, words under keys such as type, status and currency, times under keys such as
created_at, and numbers under keys such as amount and quantity. Under keys that may hold personal data, a secret, or
what somebody has written (name, address, card, token, metadata, ...), only the shape and Stripe's IDs are. A payload that
is neither JSON nor a form is not shown.

--reveal shows all of it, and needs --why: who looked at it and why goes into the audit trail. Signatures and
secrets among the headers are never shown.`,
	}
	cmd.Flags().BoolVar(&reveal, "reveal", false, "show all of it; this is recorded")
	d.flags(cmd, "why it is revealed, for the audit trail")
	cmd.Flags().StringVar(&out, "out", "", "write it to a new `file` that only you can read")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		a.JSON = a.JSON && out == "" // a file gets the payload, and nothing else
		return d.reveals(a, "events body", reveal)
	}
	return show(a, cmd, func(ctx context.Context, s *session, args []string) (body, error) {
		b, err := revealed(ctx, s, &d, args[0], reveal, s.ShowBody)
		switch {
		case err != nil:
			return body{}, err
		case b.Bytes == nil:
			return body{}, fmt.Errorf("the body of %s (%d bytes) is neither JSON nor a form, and cannot be masked: --reveal --why REASON shows it", args[0], b.Size)
		}
		if out != "" {
			err = saveBody(b.Bytes, out)
		}
		return body{b, payloadOf(b.Bytes)}, err
	}, func(a *app, b body) {
		if out == "" {
			writeBody(a, b.Body)
			return
		}
		fmt.Fprintf(a.out, "wrote the %s body of %s to %s (%d bytes)\n", howShown(b.Body), output.Clean(b.EventID),
			output.Clean(out), len(b.Body.Bytes))
	})
}

// reveals wants a reason where something is shown whole.
func (d *decision) reveals(a *app, command string, whole bool) error {
	if !whole {
		return nil
	}
	return d.accountable(a, command+" --reveal")
}

// revealed returns what masked shows of a target or, if it is to be shown whole, the result of that decision.
func revealed[T any](ctx context.Context, s *session, d *decision, id string, whole bool,
	masked func(context.Context, string) (T, error)) (shown T, err error) {
	if !whole {
		return masked(ctx, id)
	}
	d.Target = id
	answer, err := s.Decide(ctx, d.Decision)
	if err != nil {
		return shown, err
	}
	shown, _ = answer.Result.(T)
	return shown, nil
}

// body is a payload in JSON: as "body" if it is JSON itself, else in Base64.
type body struct {
	*operator.Body
	payload
}

// saveBody writes a payload, and nothing else, to a file that is not there yet.
func saveBody(payload []byte, file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already: name another file", file)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(payload)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}

func howShown(b *operator.Body) string {
	if b.Revealed {
		return "whole"
	}
	return "masked"
}

// payload is how --json has the bytes of a payload: as they are where they are JSON, else in Base64.
type payload struct {
	JSON  json.RawMessage `json:"body,omitempty"`
	Bytes []byte          `json:"body_base64,omitempty"`
}

func payloadOf(content []byte) payload {
	if json.Valid(content) {
		return payload{JSON: content}
	}
	return payload{Bytes: content}
}

func writeBody(a *app, b *operator.Body) {
	rows := [][]string{{"event", b.EventID + "  " + b.Type}, {"receipt", b.Receipt},
		{"body", fmt.Sprintf("%d bytes, %s", b.Size, howShown(b))}}
	for _, name := range slices.Sorted(maps.Keys(b.Header)) {
		for _, v := range b.Header[name] {
			rows = append(rows, []string{"header", name + ": " + v})
		}
	}
	a.Table(rows)
	writePayload(a, b.Bytes, "--out FILE")
}

// writePayload writes a payload to the screen, below its header. all is the command that shows all of a long one.
func writePayload(a *app, text []byte, all string) {
	if !utf8.Valid(text) {
		fmt.Fprintf(a.out, "\nit is not text: %s has it\n", all)
		return
	}
	if json.Valid(text) {
		var indented bytes.Buffer
		_ = json.Indent(&indented, text, "", "  ") // it is valid
		text = indented.Bytes()
	}
	more := len(text) - shownPayload
	if more > 0 {
		text = bytes.ToValidUTF8(text[:shownPayload], nil) // a letter is shown whole, or not at all
	}
	fmt.Fprintln(a.out)
	a.writeLines(string(text))
	if more > 0 {
		fmt.Fprintf(a.err, "%d bytes more are not shown: %s has all\n", more, all)
	}
}

func (a *app) writeLines(text string) {
	for line := range strings.Lines(text) {
		fmt.Fprintln(a.out, output.Clean(strings.TrimSuffix(line, "\n")))
	}
}
