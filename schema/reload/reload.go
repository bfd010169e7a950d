// Package reload stores the requests of operators that processes load their configuration files again.
package reload

import (
	"context"

	"github.com/pawlhq/pawl/schema"
)

// All is the name of all kinds of processes.
const All = "all"

const requestSQL = `insert into reloads (process, requested_by) values ($1, $2)`

// Request stores a request to the processes of a kind, or of [All] kinds.
func Request(ctx context.Context, db schema.Execer, process, by string) error {
	return schema.Exec(ctx, db, "request a reload", requestSQL, process, by)
}

const newestSQL = `select coalesce(max(id), 0) from reloads where process in ($1, 'all')`

// Newest returns the number of the newest request to a kind of process, or 0 if there is no request.
func Newest(ctx context.Context, db schema.Querier, process string) (int64, error) {
	return schema.One[int64](ctx, db, "read the newest request of a reload", newestSQL, process)
}
