package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/ingress/rejected"
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
	var request, reveal bool
	var who, why string
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show a refused request, masked unless asked otherwise", Args: oneID("rejections show"),
		Long: `Show a refused request. Its body and its headers are masked as pawl events body masks them. A body that is neither
JSON nor a form, or was cut, is not shown.

--reveal shows all of it but its signatures and secrets. --request prints it as pawl verify --request takes it: whole,
with its signatures, and without secrets, which come with pawl verify --source. What event it claims to be stands there
as claimed_unverified: nobody has verified it. Both need --why: who looked at it and why goes into the audit trail.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			who = a.who(who)
			if request || reveal {
				if err := accountable(map[bool]string{true: "rejections show --request", false: "rejections show --reveal"}[request], who, why); err != nil {
					return err
				}
			}
			if request {
				return a.printRequest(cmd.Context(), args[0], who, why)
			}
			var r *operator.Rejection
			err := a.withDatabase(cmd.Context(), func(ctx context.Context, cfg *config.Config, db *pgxpool.Pool) (err error) {
				if reveal {
					r, err = operator.RevealRejection(ctx, rejection.New(db), audit.New(db, a.log), args[0], who, why, signatureHeaders(cfg)...)
				} else {
					r, err = operator.ShowRejection(ctx, rejection.New(db), args[0], signatureHeaders(cfg)...)
				}
				return err
			})
			if err != nil {
				return err
			}
			if a.json {
				return a.writeRejectionJSON(r)
			}
			return a.writeRejection(r)
		},
	}
	cmd.Flags().BoolVar(&request, "request", false, "print what pawl verify --request takes; this is recorded")
	cmd.Flags().BoolVar(&reveal, "reveal", false, "show all of it but signatures and secrets; this is recorded")
	cmd.Flags().StringVar(&who, "who", "", whoUsage)
	cmd.Flags().StringVar(&why, "why", "", "why it is revealed, for the audit trail")
	cmd.MarkFlagsMutuallyExclusive("request", "reveal")
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
	var d operator.Decided
	cmd := &cobra.Command{
		Use: "admit ID --why REASON", Short: "Verify a refused request again, and take it in", Args: oneID("rejections admit"),
		Long: `Verify a refused request again, with the secrets that are configured now and against the time when
it came, and take it in as if it came now. A request that is still refused stays out.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			d.Who = a.who(d.Who)
			if err := accountable("rejections admit", d.Who, d.Why); err != nil {
				return err
			}
			var admission *operator.Admission
			err := a.withDatabase(cmd.Context(), func(ctx context.Context, cfg *config.Config, db *pgxpool.Pool) (err error) {
				receipts := receipt.NewStore(db, receipt.Options{})
				defer receipts.Close()
				admitter := operator.Admitter{
					DB: db, Rejections: rejection.New(db), Verify: reverifier(cfg), Insert: receipts.Insert, Audit: audit.New(db, a.log),
				}
				admission, err = admitter.Admit(ctx, args[0], d)
				return err
			})
			if err != nil {
				return err
			}
			if a.json {
				return a.writeJSON(admission)
			}
			if admission.Repeated {
				fmt.Fprintln(a.out, clean(admission.Says))
			}
			for _, r := range admission.Receipts {
				state := string(r.Status)
				if r.Duplicate && !admission.Repeated {
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
	decidedFlags(cmd, &d)
	return cmd
}

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
func reverifier(cfg *config.Config) func(context.Context, rejection.Rejection) (receipt.Delivery, error) {
	return func(_ context.Context, r rejection.Rejection) (receipt.Delivery, error) {
		if _, ok := cfg.Sources[r.Source]; !ok {
			return receipt.Delivery{}, fmt.Errorf("source %q is not configured any more", r.Source)
		}
		source, err := process.Source(cfg, providers(), r.Source)
		if err != nil {
			return receipt.Delivery{}, err
		}
		d, err := source.Readmit(&webhook.Request{
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
	return rejected.Diagnosis{Findings: r.Diagnosis}.String()
}

// writeRejectionJSON has the body as "body" where it is JSON, else in Base64.
func (a *app) writeRejectionJSON(r *operator.Rejection) error {
	shown := struct {
		*operator.Rejection
		payload
	}{r, payloadOf(r.Body)}
	return a.writeJSON(shown)
}

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
	rows = append(rows, []string{"body", bodySize(r)})
	if r.AdmittedAt != nil {
		rows = append(rows, []string{"admitted", clock(*r.AdmittedAt)})
	}
	if err := table(a.out, rows); err != nil || len(r.Body) == 0 {
		return err
	}
	return a.writePayload(r.Body, "--json")
}

// bodySize says how much of a body came, was kept, and is shown.
func bodySize(r *operator.Rejection) string {
	if r.Truncated && r.BodySize == 0 {
		return "not read"
	}
	size := fmt.Sprintf("%d bytes", r.BodySize)
	if r.Truncated {
		size += ", of which the first are kept"
	}
	switch {
	case r.BodySize == 0:
		return size
	case r.Revealed:
		return size + ", whole"
	case len(r.Body) == 0:
		return size + ", which cannot be masked: --reveal --why REASON shows them"
	}
	return size + ", masked"
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}
