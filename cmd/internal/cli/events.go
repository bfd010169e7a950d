package cli

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

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/resource"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/timeline"
)

// shownEvent is the output of `pawl events show`: one event, or the list of events about an object.
type shownEvent struct {
	*event.Evidence
	Object string             `json:"object,omitempty"`
	Events []timeline.Receipt `json:"events,omitempty"`
	// page is the URL of the run in the Temporal UI. It is empty if there is no run.
	page string
}

func eventsShow(a *command.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show everything about one event",
		Long: `Show everything about one event. ID is an event ID, a receipt ID, a workflow ID, the key of an effect, or the ID of a
provider's object, such as an invoice (also by its number). If an object has several events, the command lists them.

The output has, in this order: the time of the first delivery; the number of attempts and the time of the next one; the
effects that are done; the effects that are not done, not started or uncertain; the decisions with person and reason; and
whether a replay is safe. Then follow all steps in the order of time, a verdict, and the commands that work now. The time
of the next attempt comes from Temporal. If Temporal does not answer within three seconds, the output says so and shows
the rest.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return command.Usagef("events show needs the ID of one event, receipt, workflow, effect or object")
			}
			return nil
		},
	}
	return command.Show(a, cmd, func(ctx context.Context, s *command.Session, args []string) (shownEvent, error) {
		event, err := event.Examine(ctx, s.Operator, args[0])
		if several, is := errors.AsType[*decide.Fault](err); is && several.Object {
			return shownEvent{Object: args[0], Events: several.Receipts}, nil
		}
		if err != nil {
			return shownEvent{}, err
		}
		return shownEvent{Evidence: event, page: s.Config.Temporal.Page(event.Receipt.WorkflowID,
			event.LatestRun())}, nil
	}, func(a *command.App, shown shownEvent) {
		if shown.Evidence == nil {
			a.List(tables.Receipts(shown.Events), resource.Named("events").About().Drops...)
			return
		}
		writeEvidence(a, shown.Evidence, shown.page)
	})
}

// writeEvidence prints one event: a summary, every step, a verdict, and the choices. page is the URL of the run in the
// Temporal UI. It is empty if there is no run.
func writeEvidence(a *command.App, e *event.Evidence, page string) {
	for _, part := range []output.Table{tables.EventHead(e, page), tables.Received(e), tables.Done(e), tables.Undone(e),
		tables.AskedFor(e), tables.Timeline(e.Timeline)} {
		a.Table(part)
		fmt.Fprintln(a.Out)
	}
	fmt.Fprintf(a.Out, "verdict: %s\n", output.Clean(e.Verdict))
	head := "You can run:"
	if e.Parked() {
		head = "You can run one of these; the audit trail records who and why:"
	}
	writeChoices(a, head, e.Choices)
}

// writeChoices prints the choices about an event as shell commands. A comment after "#" describes each command.
func writeChoices(a *command.App, head string, choices []decide.Choice) {
	if len(choices) == 0 {
		return
	}
	rows := output.Table{{head}}
	for _, c := range choices {
		rows = append(rows, []any{"  " + a.Configured(c).Line(), "# " + c.Effect})
	}
	a.Table(rows)
}

// shownPayload is the number of bytes of a payload that are printed to a screen.
const shownPayload = 64 << 10

func eventsPayload(a *command.App) *cobra.Command {
	var reveal bool
	var out string
	d := decision{Decision: decide.Decision{Verb: event.Reveal.Name}}
	cmd := &cobra.Command{
		Use: "payload ID", Short: "Show the payload of an event, masked by default",
		Args: command.OneID,
		Long: `Show the stored payload of an event. Values that may be personal data are masked. The output keeps the structure, true,
false and null, IDs of Stripe and UUIDs, words under keys such as type, status and currency, times under keys such as
created_at, and numbers under keys such as amount and quantity. Under keys that may hold personal data, a secret or free
text (name, address, card, token, metadata, ...), it keeps only the structure and IDs of Stripe. A payload that is
neither JSON nor a form is not shown.

--reveal shows the whole payload and needs --reason. The audit trail records who viewed the payload and why. Headers with
signatures or secrets are never shown.`,
	}
	cmd.Flags().BoolVar(&reveal, "reveal", false, "show the whole payload; the audit trail records it")
	d.flags(cmd, "the reason, for the audit trail")
	cmd.Flags().StringVar(&out, "out", "", "write the payload to a new `file` that only you can read")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		a.JSON = a.JSON && out == "" // write only the payload to the file
		return d.reveals(a, "events payload", reveal)
	}
	return command.Show(a, cmd, func(ctx context.Context, s *command.Session, args []string) (body, error) {
		b, err := revealed(ctx, s, &d, args[0], reveal, event.ShowBody)
		switch {
		case err != nil:
			return body{}, err
		case b.Bytes == nil:
			return body{}, fmt.Errorf("the body of %s (%d bytes) is neither JSON nor a form and cannot be masked: --reveal --reason REASON shows it", args[0], b.Size)
		}
		if out != "" {
			err = saveBody(b.Bytes, out)
		}
		return body{b, payloadOf(b.Bytes)}, err
	}, func(a *command.App, b body) {
		if out == "" {
			writeBody(a, b.Body)
			return
		}
		fmt.Fprintf(a.Out, "wrote the %s body of %s to %s (%d bytes)\n", howShown(b.Body), output.Clean(b.EventID),
			output.Clean(out), len(b.Body.Bytes))
	})
}

// reveals checks that a command which shows a whole payload has a reason.
func (d *decision) reveals(a *command.App, command string, whole bool) error {
	if !whole {
		return nil
	}
	return d.accountable(a, command+" --reveal")
}

// revealed returns the masked form of the target. If whole is set, it returns the result of the recorded decision to
// reveal it.
func revealed[T any](ctx context.Context, s *command.Session, d *decision, id string, whole bool,
	masked func(context.Context, *decide.Operator, string) (T, error)) (shown T, err error) {
	if !whole {
		return masked(ctx, s.Operator, id)
	}
	d.Target = id
	answer, err := s.Decide(ctx, d.Decision)
	if err != nil {
		return shown, err
	}
	shown, _ = answer.Result.(T)
	return shown, nil
}

// body is the JSON form of a payload: field "body" if the payload is JSON, otherwise Base64.
type body struct {
	*event.Body
	payload
}

// saveBody writes a payload to a new file. It returns an error if the file exists.
func saveBody(payload []byte, file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists: choose another file", file)
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

func howShown(b *event.Body) string {
	if b.Revealed {
		return "whole"
	}
	return "masked"
}

// payload is the form of a payload in the output of --json: unchanged if it is JSON, otherwise Base64.
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

func writeBody(a *command.App, b *event.Body) {
	rows := output.Table{{"event", b.EventID + "  " + b.Type}, {"receipt", b.Receipt},
		{"body", fmt.Sprintf("%d bytes, %s", b.Size, howShown(b))}}
	for _, name := range slices.Sorted(maps.Keys(b.Header)) {
		for _, v := range b.Header[name] {
			rows = append(rows, []any{"header", name + ": " + v})
		}
	}
	a.Table(rows)
	writePayload(a, b.Bytes, "--out FILE")
}

// writePayload prints a payload. If the payload is too long for a screen, all is the command that prints the complete
// payload.
func writePayload(a *command.App, text []byte, all string) {
	if !utf8.Valid(text) {
		fmt.Fprintf(a.Out, "\nthe payload is not text: use %s\n", all)
		return
	}
	if json.Valid(text) {
		var indented bytes.Buffer
		_ = json.Indent(&indented, text, "", "  ") // the JSON is valid
		text = indented.Bytes()
	}
	more := len(text) - shownPayload
	if more > 0 {
		text = bytes.ToValidUTF8(text[:shownPayload], nil) // do not cut a character
	}
	fmt.Fprintln(a.Out)
	writeLines(a, string(text))
	if more > 0 {
		fmt.Fprintf(a.Err, "%d more bytes are not shown: use %s\n", more, all)
	}
}

func writeLines(a *command.App, text string) {
	for line := range strings.Lines(text) {
		fmt.Fprintln(a.Out, output.Clean(strings.TrimSuffix(line, "\n")))
	}
}
