package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/rejection"
)

// requestFile is a refused request as `pawl verify --request` takes it; see captured.
type requestFile struct {
	Provider         string            `json:"provider"`
	Options          map[string]string `json:"options,omitempty"`
	Method           string            `json:"method"`
	URL              string            `json:"url"`
	Headers          http.Header       `json:"headers"`
	Body             []byte            `json:"body_base64"`
	NowUnix          float64           `json:"now_unix"`
	ToleranceSeconds float64           `json:"tolerance_seconds,omitempty"`
	// Claimed are the events that the request says it carries. Anybody may have written that.
	Claimed []claim `json:"claimed_unverified"`
}

// claim is what a request says of itself that nobody has verified.
type claim struct {
	EventID string `json:"event_id"`
	Type    string `json:"type"`
}

// printRequest prints a refused request for `pawl verify`. That reveals it.
func (a *app) printRequest(ctx context.Context, id, who, why string) error {
	var cfg *config.Config
	var r rejection.Rejection
	err := a.withDatabase(ctx, func(ctx context.Context, loaded *config.Config, db *pgxpool.Pool) (err error) {
		cfg = loaded
		r, err = operator.RejectedRequest(ctx, rejection.New(db), audit.New(db, a.log), id, who, why)
		return err
	})
	if err != nil {
		return err
	}
	s, ok := cfg.Sources[r.Source]
	if !ok {
		return fmt.Errorf("source %q is not configured any more: what its requests are signed with is not known", r.Source)
	}
	source, err := process.Source(cfg, providers(), r.Source)
	if err != nil {
		return err
	}
	out := requestFile{
		Provider: s.Provider, Options: s.Options, Method: r.Method, URL: source.CalledURL(r.Query), Headers: r.Header, Body: r.Body,
		NowUnix: float64(r.ReceivedAt.UnixMicro()) / 1e6, ToleranceSeconds: s.Tolerance.Seconds(), Claimed: []claim{},
	}
	if r.Truncated {
		a.log.Warn("the body was not kept whole, and no signature fits a part of it", "bytes", r.BodySize, "kept", len(r.Body))
	} else {
		for _, e := range source.Verifier.Events(&webhook.Request{Method: r.Method, URL: out.URL, Header: r.Header, Body: r.Body, ReceivedAt: r.ReceivedAt, Kept: true}) {
			out.Claimed = append(out.Claimed, claim{e.ID, e.Type})
		}
	}
	return a.writeJSON(out)
}
