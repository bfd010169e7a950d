package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/capture"
	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	rejections "github.com/pawlhq/pawl/cmd/internal/operator/rejection"
	"github.com/pawlhq/pawl/cmd/internal/output"
)

// shownRejection is the JSON form of a refused request: field "body" if the body is JSON, otherwise Base64.
type shownRejection struct {
	*rejections.Shown
	payload
}

func rejectionsShow(a *command.App) *cobra.Command {
	var request, reveal bool
	d := decision{Decision: decide.Decision{Verb: rejections.Reveal.Name}}
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show a refused request, masked by default", Args: command.OneID,
		Long: `Show a refused request. Body and headers are masked by the rules of pawl events payload. A body that is neither JSON nor a
form, or that was cut, is not shown.

--reveal shows the whole request without signatures and secrets. --request prints the input of pawl verify --request: the
whole request with its signatures, without secrets. pawl verify --source adds the secrets. The field claimed_unverified
has the event that the request claims to be; its signature was not verified. Both flags need --reason. The audit trail
records who viewed the request and why.`,
	}
	cmd.Flags().BoolVar(&request, "request", false,
		"print the request in the format that pawl verify --request reads; the audit trail records this access")
	cmd.Flags().BoolVar(&reveal, "reveal", false, "show the whole request without signatures and secrets; the audit trail records it")
	d.flags(cmd, "the reason, for the audit trail")
	cmd.MarkFlagsMutuallyExclusive("request", "reveal")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if a.JSON = a.JSON || request; request {
			d.Kind = "with signatures"
			return d.accountable(a, "rejections show --request")
		}
		return d.reveals(a, "rejections show", reveal)
	}
	return command.Show(a, cmd, func(ctx context.Context, s *command.Session, args []string) (any, error) {
		r, err := revealed(ctx, s, &d, args[0], request || reveal, rejections.Show)
		if err != nil {
			return nil, err
		}
		if request {
			if r.Truncated {
				s.Log.Warn("the stored body is incomplete: no signature can match it", "bytes", r.BodySize,
					"kept", len(r.Body))
			}
			return capture.FileOf(s.Config, s.Providers, r.Rejection)
		}
		return shownRejection{r, payloadOf(r.Body)}, nil
	}, func(a *command.App, shown any) { writeRejection(a, shown.(shownRejection).Shown) })
}

func writeRejection(a *command.App, r *rejections.Shown) {
	rows := output.Table{
		{"rejection", r.ID},
		{"received", output.Time(r.ReceivedAt) + " from " + r.RemoteAddr},
		{"source", r.Source},
		{"class", r.Class + output.WithReason(r.Detail)},
	}
	for _, f := range r.Diagnosis {
		rows = append(rows, []any{"diagnosis", f.Text})
	}
	if len(r.Query) > 0 {
		rows = append(rows, []any{"query", strings.Join(r.Query, ", ")})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		for _, v := range r.Header[name] {
			rows = append(rows, []any{"header", name + ": " + v})
		}
	}
	rows = append(rows, []any{"body", bodySize(r)})
	if r.AdmittedAt != nil {
		rows = append(rows, []any{"admitted", output.Time(*r.AdmittedAt)})
	}
	a.Table(rows)
	if len(r.Body) > 0 {
		writePayload(a, r.Body, "--json")
	}
}

func bodySize(r *rejections.Shown) string {
	if r.Truncated && r.BodySize == 0 {
		return "not read"
	}
	size := fmt.Sprintf("%d bytes", r.BodySize)
	if r.Truncated {
		size += ", only the beginning is stored"
	}
	switch {
	case r.BodySize == 0:
		return size
	case r.Revealed:
		return size + ", complete"
	case len(r.Body) == 0:
		return size + ", cannot be masked: use --reveal --reason REASON"
	}
	return size + ", masked"
}
