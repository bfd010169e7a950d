package process

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/handout"
)

// Archive is the database as a provider sees it, see [webhook.Archive]: without it a delivery is verified all the same, with
// what is fetched anew.
type Archive struct {
	store *handout.Store
	log   *slog.Logger
}

// NewArchive returns the archive in the database of pool.
func NewArchive(pool *pgxpool.Pool, log *slog.Logger) Archive {
	return Archive{handout.New(pool), log}
}

// archiveWithin bounds a read or a write: a delivery waits for it, and can do without.
const archiveWithin = time.Second

// Load returns what is kept, by URL; nothing where the database is away.
func (a Archive) Load(ctx context.Context) map[string][]byte {
	ctx, cancel := context.WithTimeout(ctx, archiveWithin)
	defer cancel()
	all, err := a.store.Load(ctx)
	if err != nil {
		a.log.WarnContext(ctx, "what providers hand out is fetched anew", "error", err)
	}
	return all
}

// Save keeps content under its URL, if it can.
func (a Archive) Save(ctx context.Context, url string, content []byte) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), archiveWithin)
	defer cancel()
	if err := a.store.Save(ctx, url, content); err != nil {
		a.log.WarnContext(ctx, "what a provider has handed out is not kept", "error", err)
	}
}
