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

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/receipt"
)

// shownPayload is how much of a payload is written to a screen.
const shownPayload = 64 << 10

func (a *app) eventsBody() *cobra.Command {
	var reveal bool
	var who, why, out string
	cmd := &cobra.Command{
		Use: "body ID", Short: "Show the payload of an event, masked unless asked otherwise", Args: oneID("events body"),
		Long: `Show the payload that was kept of an event. What may be personal data is masked: shown are the shape, true, false and
null, IDs of Stripe's and UUIDs, words under keys such as type, status and currency, times under keys such as
created_at, and numbers under keys such as amount and quantity. Under keys that may hold personal data, a secret, or
what somebody has written (name, address, card, token, metadata, ...), only the shape and Stripe's IDs are. A payload that
is neither JSON nor a form is not shown.

--reveal shows all of it, and needs --why: who looked at it and why goes into the audit trail. Signatures and
secrets among the headers are never shown.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			who = a.who(who)
			if reveal {
				if err := accountable("events body --reveal", who, why); err != nil {
					return err
				}
			}
			var b *operator.Body
			err := a.withDatabase(cmd.Context(), func(ctx context.Context, cfg *config.Config, db *pgxpool.Pool) (err error) {
				receipts := receipt.NewStore(db, receipt.Options{})
				defer receipts.Close()
				if reveal {
					b, err = operator.RevealBody(ctx, db, receipts, audit.New(db, a.log), args[0], who, why, signatureHeaders(cfg)...)
				} else {
					b, err = operator.ShowBody(ctx, db, receipts, args[0], signatureHeaders(cfg)...)
				}
				return err
			})
			switch {
			case err != nil:
				return err
			case b.Bytes == nil:
				return fmt.Errorf("the body of %s (%d bytes) is neither JSON nor a form, and cannot be masked: --reveal --why REASON shows it", args[0], b.Size)
			case out != "":
				return a.saveBody(b, out)
			case a.json:
				return a.writeBodyJSON(b)
			}
			return a.writeBody(b)
		},
	}
	cmd.Flags().BoolVar(&reveal, "reveal", false, "show all of it; this is recorded")
	cmd.Flags().StringVar(&who, "who", "", whoUsage)
	cmd.Flags().StringVar(&why, "why", "", "why it is revealed, for the audit trail")
	cmd.Flags().StringVar(&out, "out", "", "write it to a new `file` that only you can read")
	return cmd
}

// saveBody writes the payload, and nothing else, to a file that is not there yet.
func (a *app) saveBody(b *operator.Body, file string) error {
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
	_, err = fmt.Fprintf(a.out, "wrote the %s body of %s to %s (%d bytes)\n", howShown(b), clean(b.EventID), clean(file), len(b.Bytes))
	return err
}

func howShown(b *operator.Body) string {
	if b.Revealed {
		return "whole"
	}
	return "masked"
}

// writeBodyJSON has the payload as "body" where it is JSON, else in Base64.
func (a *app) writeBodyJSON(b *operator.Body) error {
	return a.writeJSON(struct {
		*operator.Body
		payload
	}{b, payloadOf(b.Bytes)})
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

func (a *app) writeBody(b *operator.Body) error {
	rows := [][]string{{"event", b.EventID + "  " + b.Type}, {"receipt", b.Receipt}, {"body", fmt.Sprintf("%d bytes, %s", b.Size, howShown(b))}}
	for _, name := range slices.Sorted(maps.Keys(b.Header)) {
		for _, v := range b.Header[name] {
			rows = append(rows, []string{"header", name + ": " + v})
		}
	}
	if err := table(a.out, rows); err != nil {
		return err
	}
	return a.writePayload(b.Bytes, "--out FILE")
}

// writePayload writes a payload to the screen, below what is known of it. all is what has all of one that is too long.
func (a *app) writePayload(text []byte, all string) error {
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
		if _, err := fmt.Fprintln(a.out, clean(strings.TrimSuffix(line, "\n"))); err != nil {
			return err
		}
	}
	if more > 0 {
		fmt.Fprintf(a.err, "%d bytes more are not shown: %s has all\n", more, all)
	}
	return nil
}
