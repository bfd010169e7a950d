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

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
)

// shownPayload is how much of a payload is written to a screen.
const shownPayload = 64 << 10

func eventsBody(a *app) *cobra.Command {
	var reveal bool
	var out string
	d := operator.Decision{Verb: operator.VerbReveal}
	cmd := &cobra.Command{
		Use: "body ID", Short: "Show the payload of an event, masked unless asked otherwise",
		Args: oneID("events body"),
		Long: `Show the payload that was kept of an event. Possible personal data is masked: shown are the shape, true, false and
null, IDs of Stripe's and UUIDs, words under keys such as type, status and currency, times under keys such as
created_at, and numbers under keys such as amount and quantity. Under keys that may hold personal data, a secret, or
what somebody has written (name, address, card, token, metadata, ...), only the shape and Stripe's IDs are. A payload that
is neither JSON nor a form is not shown.

--reveal shows all of it, and needs --why: who looked at it and why goes into the audit trail. Signatures and
secrets among the headers are never shown.`,
	}
	cmd.Flags().BoolVar(&reveal, "reveal", false, "show all of it; this is recorded")
	decisionFlags(cmd, &d, "why it is revealed, for the audit trail")
	cmd.Flags().StringVar(&out, "out", "", "write it to a new `file` that only you can read")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		a.JSON = a.JSON && out == "" // a file gets the payload, and nothing else
		return revealedFor(a, &d, "events body --reveal", reveal)
	}
	return show(a, cmd, func(ctx context.Context, s *session, args []string) (body, error) {
		b, err := reveals(ctx, s, &d, args[0], reveal, s.ShowBody)
		switch {
		case err != nil:
			return body{}, err
		case b.Bytes == nil:
			return body{}, fmt.Errorf("the body of %s (%d bytes) is neither JSON nor a form, and cannot be masked: --reveal --why REASON shows it", args[0], b.Size)
		}
		return body{b, payloadOf(b.Bytes)}, nil
	}, func(a *app, b body) error {
		if out != "" {
			return saveBody(a, b.Body, out)
		}
		return writeBody(a, b.Body)
	})
}

// revealedFor wants a reason where something is shown whole.
func revealedFor(a *app, d *operator.Decision, command string, reveal bool) error {
	if !reveal {
		return nil
	}
	return a.accountable(command, d)
}

// reveals returns what masked shows of a target or, if it is to be shown whole, the result of that decision.
func reveals[T any](ctx context.Context, s *session, d *operator.Decision, id string, whole bool,
	masked func(context.Context, string) (T, error)) (shown T, err error) {
	if !whole {
		return masked(ctx, id)
	}
	d.Target = id
	answer, err := s.Decide(ctx, *d)
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

// saveBody writes the payload, and nothing else, to a file that is not there yet.
func saveBody(a *app, b *operator.Body, file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already: name another file", file)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(b.Bytes)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	_, err = fmt.Fprintf(a.out, "wrote the %s body of %s to %s (%d bytes)\n", howShown(b), output.Clean(b.EventID),
		output.Clean(file), len(b.Bytes))
	return err
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

func writeBody(a *app, b *operator.Body) error {
	rows := [][]string{{"event", b.EventID + "  " + b.Type}, {"receipt", b.Receipt},
		{"body", fmt.Sprintf("%d bytes, %s", b.Size, howShown(b))}}
	for _, name := range slices.Sorted(maps.Keys(b.Header)) {
		for _, v := range b.Header[name] {
			rows = append(rows, []string{"header", name + ": " + v})
		}
	}
	if err := a.Table(rows); err != nil {
		return err
	}
	return writePayload(a, b.Bytes, "--out FILE")
}

// writePayload writes a payload to the screen, below its header. all is the command that shows all of a long one.
func writePayload(a *app, text []byte, all string) error {
	if !utf8.Valid(text) {
		_, err := fmt.Fprintf(a.out, "\nit is not text: %s has it\n", all)
		return err
	}
	if json.Valid(text) {
		var indented bytes.Buffer
		if err := json.Indent(&indented, text, "", "  "); err != nil {
			return err
		}
		text = indented.Bytes()
	}
	more := len(text) - shownPayload
	if more > 0 {
		text = bytes.ToValidUTF8(text[:shownPayload], nil) // a letter is shown whole, or not at all
	}
	fmt.Fprintln(a.out)
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Fprintln(a.out, output.Clean(strings.TrimSuffix(line, "\n"))); err != nil {
			return err
		}
	}
	if more > 0 {
		fmt.Fprintf(a.err, "%d bytes more are not shown: %s has all\n", more, all)
	}
	return nil
}
