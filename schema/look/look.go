// Package look keeps who was shown something of what came in: of a body or of a refused request, masked or whole. The
// database's role of a console can read neither before it has committed such a row, and takes none back.
package look

import (
	"context"
	"math"
	"time"

	"github.com/pawlhq/pawl/schema"
)

// recordSQL leaves out what it has just recorded: a page that renews itself looks again and again. A look holds for a
// minute.
const recordSQL = `
insert into looks (what, who, why)
select id, $2, $3 from unnest($1::uuid[]) as of (id)
 where not exists (select from looks l where l.what = of.id and l.who = $2 and l.why = $3
                      and l.at > now() - interval '30 seconds' offset 0)`

// Record commits that somebody looks at receipts or rejections, by their IDs. db must not be a transaction.
func Record(ctx context.Context, db schema.Execer, who, why string, ids []string) error {
	return schema.Exec(ctx, db, "record a look at what came in", recordSQL, ids, who, why)
}

// Row is one look.
type Row struct {
	// ID grows with time. Gaps between IDs mean nothing.
	ID int64     `json:"id"`
	At time.Time `json:"at"`
	// The person is "" for the command line. The role is the database's, whoever connected with it.
	Who  string `json:"who"`
	Role string `json:"role"`
	// Why is "masked" or "preview", or the verb that it was for; with its reason where something was shown whole.
	Why string `json:"why"`
	// A look is at a receipt or at a refused request, by its ID. A refused request has no event ID.
	What    string `json:"what"`
	EventID string `json:"event_id"`
}

// Filter narrows a list; empty fields let everything pass.
type Filter struct {
	Who string
	// A look passes if it is at one of these receipts or refused requests; nil lets all pass.
	What []string
	// OlderThan is the ID of a row: those before it pass. It continues a list; 0 sets no bound.
	OlderThan int64
	// Limit is the most rows to return, the newest first.
	Limit int
}

// Each filter is a statement of its own, so that each has a plan of its own.
const (
	listed = `
select l.id, l.at, l.who, l.role, l.why, l.what::text as what, coalesce(r.event_id, '') as event_id
  from (select * from looks where id < $1`
	inOrder     = ` order by id desc limit $2) l left join receipts r on r.id = l.what order by l.id desc`
	listSQL     = listed + inOrder
	listWhoSQL  = listed + ` and who = $3` + inOrder
	listWhatSQL = listed + ` and what = any($4) and ($3 = '' or who = $3)` + inOrder
)

// List returns the looks that pass f, the newest first.
func List(ctx context.Context, db schema.Querier, f Filter) ([]Row, error) {
	sql, args := listSQL, []any{f.OlderThan, f.Limit}
	if f.OlderThan == 0 {
		args[0] = int64(math.MaxInt64)
	}
	switch {
	case f.What != nil:
		sql, args = listWhatSQL, append(args, f.Who, f.What)
	case f.Who != "":
		sql, args = listWhoSQL, append(args, f.Who)
	}
	return schema.List[Row](ctx, db, "list looks", sql, args...)
}

const trimSQL = `select trim_looks()`

// Trim deletes some of the looks that are older than 400 days. Call it again and again.
func Trim(ctx context.Context, db schema.Execer) error {
	return schema.Exec(ctx, db, "trim looks", trimSQL)
}
