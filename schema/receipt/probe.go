package receipt

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/schema"
)

// Probe is a delivery without an event. An operator sent it to see whether deliveries arrive.
type Probe struct {
	ID, Source  string
	ReceivedAt  time.Time
	SecretLabel string
}

// keepProbeSQL keeps a source's probes for a day.
const keepProbeSQL = `
with old as (delete from probes where source = $2 and received_at < now() - interval '1 day')
insert into probes (id, source, received_at, secret_label) values ($1, $2, $3, $4)
on conflict (source, id) do nothing`

// KeepProbe commits that a probe has arrived. It may be called twice.
func (s *Store) KeepProbe(ctx context.Context, p Probe) error {
	return schema.Exec(ctx, s.db, "keep probe of "+p.Source, keepProbeSQL, p.ID, p.Source, p.ReceivedAt, p.SecretLabel)
}

const probeSQL = `select id, source, received_at, secret_label from probes where source = $2 and id = $1`

// Probe returns a probe of a source, or [schema.ErrNotFound] if no probe of this ID has arrived.
func (r Reader) Probe(ctx context.Context, source, id string) (Probe, error) {
	return schema.One[Probe](ctx, r.db, "read probe of "+source, probeSQL, id, source)
}
