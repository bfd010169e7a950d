// Package look keeps who was shown something of what came in: of a body or of a refused request, masked or whole. The
// database's role of a console can read neither before it has committed such a row, and takes none back.
package look

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// Statements are all statements of the package by name, for schematest.CheckStatements.
var Statements = map[string]string{"record": recordSQL}

// recordSQL leaves out what it has just recorded: a page that renews itself looks again and again. A look holds for a
// minute.
const recordSQL = `
insert into looks (what, who, why)
select id, $2, $3 from unnest($1::uuid[]) as of (id)
 where not exists (select from looks l where l.what = of.id and l.who = $2 and l.why = $3
                      and l.at > now() - interval '30 seconds' offset 0)`

// Record commits that somebody looks at receipts or rejections, by their IDs. db must not be a transaction.
func Record(ctx context.Context, db interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}, who, why string, ids []string) error {
	if _, err := db.Exec(ctx, recordSQL, ids, who, why); err != nil {
		return fmt.Errorf("record a look at what came in: %w", err)
	}
	return nil
}
