package operator

import (
	"context"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/schema/look"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// Looks returns those that pass f, the newest first, about the event or the refused request that id names; "" for all.
func Looks(ctx context.Context, db timeline.DB, id string, f look.Filter) ([]look.Row, error) {
	if id != "" {
		receipts, err := timeline.Find(ctx, db, id)
		if err != nil {
			return nil, err
		}
		f.What = []string{}
		for _, r := range receipts {
			f.What = append(f.What, r.ID)
		}
		if uuid.Validate(id) == nil && len(f.What) == 0 {
			f.What = append(f.What, id)
		}
	}
	return look.List(ctx, db, f)
}

type askedBy struct{}

// AskedBy returns a context of what p asks, for the record of who has looked at what came in.
func AskedBy(ctx context.Context, p *Person) context.Context {
	return context.WithValue(ctx, askedBy{}, p)
}

// lookAt records that bodies or refused requests are read for whoever asks, by the IDs of their receipts or rejections.
// The database lets a console read no others.
func (o *Operator) lookAt(ctx context.Context, why string, ids ...string) error {
	who := ""
	if p, ok := ctx.Value(askedBy{}).(*Person); ok && p != nil {
		who = p.Name
	}
	return look.Record(ctx, o.DB, who, why, ids)
}

// openOutlook begins the preview of a run of a receipt, whose body it reads. Its caller ends the preview with done.
func (o *Operator) openOutlook(ctx context.Context, receipt string) (outlook workflows.Outlook, done func(),
	err error) {
	if err := o.lookAt(ctx, "preview", receipt); err != nil {
		return nil, nil, err
	}
	return o.Outlook(ctx)
}
