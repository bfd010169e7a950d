package process

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/pawlhq/pawl/cmd/internal/condition"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/health"
	"github.com/pawlhq/pawl/schema/receipt"
)

// auditWatch is how often a worker verifies the audit trail.
const auditWatch = 10 * time.Minute

// watchAudit logs new heads of the audit trail and verifies the trail every auditWatch, until ctx ends.
func (n *Node) watchAudit(ctx context.Context) {
	var walks sync.WaitGroup
	walks.Go(func() {
		const work = "verify the audit trail"
		n.try(ctx, work, n.checkAudit) // verify at once, so that a modified trail is reported right after a deployment
		n.every(ctx, auditWatch, work, n.checkAudit)
	})
	audit.New(n.Pool, n.log).Watch(ctx, headWatch)
	walks.Wait()
}

// checkAudit verifies the audit trail and stores the result.
func (n *Node) checkAudit(ctx context.Context) error {
	_, _, err := audit.New(n.Pool, n.log).Verify(ctx, "")
	broken := errors.Is(err, audit.ErrBroken)
	if broken || err == nil {
		n.auditBroken.Store(broken)
	}
	return err
}

// observeStanding exports the state of the database server, and problems that no event shows.
func (e *exporter) observeStanding() error {
	return errors.Join(export(e.meter, e.readServer, []gauge{
		{"pawl_database_bytes", "", "Size of the database."},
		{"pawl_database_oldest_transaction", "s", "Age of the oldest transaction; 0 if there is no transaction."},
		{"pawl_database_connections", "", "Open connections of the server."},
		{"pawl_database_connections_max", "", "Maximum number of connections."},
		{"pawl_database_standby_lag", "s", "Replay lag of the slowest standby; absent without a standby."},
	}), export(e.meter, e.readSilent, []gauge{
		{"pawl_source_silent", "s", "Time since the last delivery of a silent source; absent for other sources."},
	}), export(e.meter, e.readEndpoints, []gauge{
		{"pawl_endpoint_finding", "s", "Time since an endpoint at the provider differs from its source, by kind."},
		{"pawl_endpoint_checked", "s", "Time since the last check of an endpoint; absent if pawl does not check it."},
	}), export(e.meter, e.readCountdowns, []gauge{
		{"pawl_source_disable_progress_ratio", "", "Progress of a provider towards disabling a source, by consecutive 5xx answers; 1 means disabled."},
	}), export(e.meter, e.readOwn, []gauge{
		{"pawl_audit_broken", "", "1 if the audit trail was tampered with."},
		{"pawl_secret_expiry_timestamp", "s", "Unix time at which the last secret of a source expires; absent if a secret does not expire."},
	}))
}

func (e *exporter) readServer(ctx context.Context, set set) error {
	s, err := health.Read(ctx, e.Pool)
	if err != nil {
		return err
	}
	set("pawl_database_bytes", float64(s.Size))
	set("pawl_database_oldest_transaction", s.Oldest.Seconds())
	set("pawl_database_connections", float64(s.Connections))
	set("pawl_database_connections_max", float64(s.Most))
	if s.StandbyLag != nil {
		set("pawl_database_standby_lag", s.StandbyLag.Seconds())
	}
	return nil
}

func (e *exporter) readSilent(ctx context.Context, set set) error {
	silent, err := receipt.Silent(ctx, e.Pool, slices.Collect(maps.Keys(e.Config.Sources)))
	for _, s := range silent {
		set("pawl_source_silent", time.Since(s.Last).Seconds(), attribute.String("source", s.Source),
			attribute.String("mode", string(e.Config.Sources[s.Source].Mode)))
	}
	return err
}

func (e *exporter) readEndpoints(ctx context.Context, set set) error {
	all, err := condition.Endpoints(ctx, e.Config, e.Pool)
	for _, looked := range all {
		source := attribute.String("source", looked.Source)
		set("pawl_endpoint_checked", time.Since(looked.LookedAt).Seconds(), source)
		for _, f := range looked.Findings {
			set("pawl_endpoint_finding", sinceThen(f.Since), source, attribute.String("kind", string(f.Kind)),
				attribute.String("mode", string(e.Config.Sources[looked.Source].Mode)))
		}
	}
	return err
}

func (e *exporter) readCountdowns(ctx context.Context, set set) error {
	all, err := condition.Countdowns(ctx, e.Config, e.Pool)
	for _, c := range all {
		set("pawl_source_disable_progress_ratio", c.Share, attribute.String("source", c.Source),
			attribute.String("mode", string(e.Config.Sources[c.Source].Mode)))
	}
	return err
}

// readOwn reads the state that this process has in memory.
func (e *exporter) readOwn(_ context.Context, set set) error {
	broken := 0.0
	if e.auditBroken.Load() {
		broken = 1
	}
	set("pawl_audit_broken", broken)
	for name, at := range condition.SecretEnds(e.Config) {
		set("pawl_secret_expiry_timestamp", float64(at.Unix()), attribute.String("source", name))
	}
	return nil
}
