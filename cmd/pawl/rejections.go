package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/ingress/refusal"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/rejection"
)

func (a *app) rejectionsList() *cobra.Command {
	var f rejection.Filter
	cmd := &cobra.Command{
		Use: "list", Short: "List refused requests, the newest first", Args: noArgument,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.Limit < 1 {
				return usagef("--limit: write a number from 1")
			}
			limit := f.Limit
			f.Limit = oneMore(limit)
			var found []operator.Rejection
			err := a.withDatabase(cmd.Context(), func(ctx context.Context, _ *config.Config, db *pgxpool.Pool) (err error) {
				found, err = operator.ListRejections(ctx, rejection.New(db), f)
				return err
			})
			if err != nil {
				return err
			}
			found = newest(a, found, limit)
			if a.json {
				return a.writeJSON(found)
			}
			rows := [][]string{{"RECEIVED", "SOURCE", "CLASS", "ID", "ADMITTED", "DIAGNOSIS"}}
			for _, r := range found {
				rows = append(rows, []string{clock(r.ReceivedAt), r.Source, r.Class, r.ID, yes(r.AdmittedAt != nil), explain(r)})
			}
			return table(a.out, rows)
		},
	}
	cmd.Flags().StringVar(&f.Source, "source", "", "only requests to this source")
	cmd.Flags().IntVar(&f.Limit, "limit", 50, "how many at most")
	return cmd
}

func (a *app) rejectionsShow() *cobra.Command {
	var request bool
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show a refused request, without its signatures and secrets", Args: oneID("rejections show"),
		Long: `Show a refused request, without its signatures and secrets.

--request prints it as pawl verify --request takes it, with its signatures, and without secrets: those come with
pawl verify --source. What event it claims to be stands there as claimed_unverified: nobody has verified it.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if request {
				return a.printRequest(cmd.Context(), args[0])
			}
			var r *operator.Rejection
			err := a.withDatabase(cmd.Context(), func(ctx context.Context, cfg *config.Config, db *pgxpool.Pool) (err error) {
				r, err = operator.ShowRejection(ctx, rejection.New(db), args[0], signatureHeaders(cfg)...)
				return err
			})
			if err != nil {
				return err
			}
			if a.json {
				return a.writeJSON(r)
			}
			return a.writeRejection(r)
		},
	}
	cmd.Flags().BoolVar(&request, "request", false, "print what pawl verify --request takes")
	return cmd
}

// signatureHeaders returns the headers that the configuration names for signatures.
func signatureHeaders(cfg *config.Config) []string {
	var names []string
	for _, s := range cfg.Sources {
		if s.Provider == hmac.Provider.Name {
			names = append(names, s.Options["header"])
		}
	}
	return names
}

func (a *app) rejectionsAdmit() *cobra.Command {
	var who, why string
	cmd := &cobra.Command{
		Use: "admit ID --why REASON", Short: "Verify a refused request again, and take it in", Args: oneID("rejections admit"),
		Long: `Verify a refused request again, with the secrets that are configured now and against the time when
it came, and take it in as if it came now. A request that is still refused stays out.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := accountable("rejections admit", a.who(who), why); err != nil {
				return err
			}
			var admission *operator.Admission
			err := a.withDatabase(cmd.Context(), func(ctx context.Context, cfg *config.Config, db *pgxpool.Pool) (err error) {
				receipts := receipt.NewStore(db, receipt.Options{})
				defer receipts.Close()
				admitter := operator.Admitter{
					Rejections: rejection.New(db), Verify: reverifier(cfg, process.NewArchive(db, a.log)), Insert: receipts.Insert, Audit: audit.New(db, a.log),
				}
				admission, err = admitter.Admit(ctx, args[0], a.who(who), why)
				return err
			})
			if err != nil {
				return err
			}
			if a.json {
				return a.writeJSON(admission)
			}
			for _, r := range admission.Receipts {
				state := string(r.Status)
				if r.Duplicate {
					state += ", which was here already"
				}
				fmt.Fprintf(a.out, "%s  %s  %s%s\n", clean(r.EventID), clean(r.Type), state, clean(because(r.Reason)))
			}
			if len(admission.Receipts) == 0 {
				fmt.Fprintln(a.out, "the request is authentic and carries no event")
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&who, "who", "", "who decides (default: $USER)")
	cmd.Flags().StringVar(&why, "why", "", "why, for the audit trail (required)")
	return cmd
}

// who is the operator: the flag's value, else the user of the environment.
// oneID wants exactly one argument.
func oneID(command string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usagef("%s needs one ID", command)
		}
		return nil
	}
}

// reverifier verifies kept requests by the configured sources.
func reverifier(cfg *config.Config, archive webhook.Archive) func(context.Context, rejection.Rejection) (receipt.Delivery, error) {
	return func(ctx context.Context, r rejection.Rejection) (receipt.Delivery, error) {
		if _, ok := cfg.Sources[r.Source]; !ok {
			return receipt.Delivery{}, fmt.Errorf("source %q is not configured any more", r.Source)
		}
		source, err := process.Source(cfg, providers(), r.Source, archive)
		if err != nil {
			return receipt.Delivery{}, err
		}
		d, err := source.Readmit(ctx, &webhook.Request{
			Method: r.Method, URL: "?" + r.Query, Header: r.Header, Body: r.Body, ReceivedAt: r.ReceivedAt,
		})
		var refused *webhook.Error
		if errors.As(err, &refused) {
			if diagnoser, failed := process.NewDiagnoser(cfg, providers()); failed == nil {
				if found := diagnoser.Diagnose(r.Source, &webhook.Request{Method: r.Method, URL: source.CalledURL(r.Query), Header: r.Header,
					Body: r.Body, ReceivedAt: r.ReceivedAt, Kept: true}, refused); len(found.Findings) > 0 && found.String() != refused.Detail {
					return d, fmt.Errorf("%w (%s)", err, found)
				}
			}
		}
		return d, err
	}
}

// explain is a rejection's diagnosis, or its detail where there is none.
func explain(r operator.Rejection) string {
	if len(r.Diagnosis) == 0 {
		return r.Detail
	}
	return refusal.Diagnosis{Findings: r.Diagnosis}.String()
}

// shownBody is how much of a body is shown on a screen.
const shownBody = 2 << 10

func (a *app) writeRejection(r *operator.Rejection) error {
	rows := [][]string{
		{"rejection", r.ID},
		{"received", clock(r.ReceivedAt) + " from " + r.RemoteAddr},
		{"source", r.Source},
		{"class", r.Class + because(r.Detail)},
	}
	for _, f := range r.Diagnosis {
		rows = append(rows, []string{"diagnosis", f.Text})
	}
	if len(r.Query) > 0 {
		rows = append(rows, []string{"query", strings.Join(r.Query, ", ")})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		for _, v := range r.Header[name] {
			rows = append(rows, []string{"header", name + ": " + v})
		}
	}
	rows = append(rows, []string{"body", bodyText(r)})
	if r.AdmittedAt != nil {
		rows = append(rows, []string{"admitted", clock(*r.AdmittedAt)})
	}
	return table(a.out, rows)
}

func bodyText(r *operator.Rejection) string {
	if r.Truncated && r.BodySize == 0 {
		return "not read"
	}
	size := fmt.Sprintf("%d bytes", r.BodySize)
	if r.Truncated {
		size += fmt.Sprintf(", %d kept", len(r.Body))
	}
	text := string(r.Body)
	if len(text) > shownBody {
		cut := shownBody
		for cut > shownBody-utf8.UTFMax && !utf8.RuneStart(text[cut]) { // a letter is shown whole, or not at all
			cut--
		}
		text = text[:cut] + "…"
	}
	if !utf8.ValidString(text) {
		return size + ", not text (see --json)"
	}
	return size + "  " + text
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}
