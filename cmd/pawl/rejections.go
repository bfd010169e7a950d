package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/capture"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/ingress/rejected"
	"github.com/pawlhq/pawl/schema/rejection"
)

func rejectionsList(a *app) *cobra.Command {
	var f rejection.Filter
	cmd := &cobra.Command{Use: "list", Short: "List refused requests, the newest first", Args: noArgument}
	cmd.Flags().StringVar(&f.Source, "source", "", "only requests to this source")
	return list(a, cmd, listing[operator.Rejection]{
		read: func(ctx context.Context, s *session, limit int) ([]operator.Rejection, error) {
			f.Limit = limit
			return s.ListRejections(ctx, f)
		},
		table: func(found []operator.Rejection) [][]string {
			return output.Rows("RECEIVED|SOURCE|CLASS|ID|ADMITTED|DIAGNOSIS", found, func(r operator.Rejection) []any {
				admitted, why := "", r.Detail
				if r.AdmittedAt != nil {
					admitted = "yes"
				}
				if len(r.Diagnosis) > 0 {
					why = rejected.Diagnosis{Findings: r.Diagnosis}.String()
				}
				return []any{r.ReceivedAt, r.Source, r.Class, r.ID, admitted, why}
			})
		},
		drops: []string{"ADMITTED", "CLASS", "RECEIVED"},
	})
}

// shownRejection is a refused request in JSON: its body as "body" if it is JSON itself, else in Base64.
type shownRejection struct {
	*operator.Rejection
	payload
}

func rejectionsShow(a *app) *cobra.Command {
	var request, reveal bool
	d := decision{Decision: operator.Decision{Verb: operator.VerbRevealRejection}}
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show a refused request, masked unless asked otherwise", Args: oneID,
		Long: `Show a refused request. Its body and its headers are masked as pawl events body masks them. A body that is neither
JSON nor a form, or was cut, is not shown.

--reveal shows all of it but its signatures and secrets. --request prints it as pawl verify --request takes it: whole,
with its signatures, and without secrets, which come with pawl verify --source. The event that it claims to be
stands there as claimed_unverified: nobody has verified it. Both need --why: who looked at it and why goes into the audit trail.`,
	}
	cmd.Flags().BoolVar(&request, "request", false, "print what pawl verify --request takes; this is recorded")
	cmd.Flags().BoolVar(&reveal, "reveal", false, "show all of it but signatures and secrets; this is recorded")
	d.flags(cmd, "why it is revealed, for the audit trail")
	cmd.MarkFlagsMutuallyExclusive("request", "reveal")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if a.JSON = a.JSON || request; request {
			d.Kind = "with signatures"
			return d.accountable(a, "rejections show --request")
		}
		return d.reveals(a, "rejections show", reveal)
	}
	return show(a, cmd, func(ctx context.Context, s *session, args []string) (any, error) {
		r, err := revealed(ctx, s, &d, args[0], request || reveal, s.ShowRejection)
		if err != nil {
			return nil, err
		}
		if request {
			if r.Truncated {
				s.log.Warn("the body was not kept whole, and no signature fits a part of it", "bytes", r.BodySize,
					"kept", len(r.Body))
			}
			return capture.FileOf(s.cfg, providers(), r.Rejection)
		}
		return shownRejection{r, payloadOf(r.Body)}, nil
	}, func(a *app, shown any) { writeRejection(a, shown.(shownRejection).Rejection) })
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

func writeRejection(a *app, r *operator.Rejection) {
	rows := [][]string{
		{"rejection", r.ID},
		{"received", output.Time(r.ReceivedAt) + " from " + r.RemoteAddr},
		{"source", r.Source},
		{"class", r.Class + output.Because(r.Detail)},
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
		rows = append(rows, []string{"admitted", output.Time(*r.AdmittedAt)})
	}
	a.Table(rows)
	if len(r.Body) > 0 {
		writePayload(a, r.Body, "--json")
	}
}

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
