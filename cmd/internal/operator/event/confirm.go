package event

import (
	"cmp"
	"context"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/timeline"
)

// Confirmation returns the word that a person types to confirm a resend: the invoice number, or the event ID if the
// event has no invoice number. key is the key of the effect, which the run expects.
func Confirmation(ctx context.Context, db timeline.DB, r *timeline.Receipt, effect string) (word, key string,
	err error) {
	key, _ = Doubtful(r, effect)
	subject, err := timeline.SubjectOf(ctx, db, r.ID)
	return cmp.Or(subject.Number, r.EventID), key, err
}

// Confirm replaces the word that the person typed by the key of the effect. It keeps any other text, which the run then
// refuses unless the text is the key.
func Confirm(ctx context.Context, db timeline.DB, d *decide.Decision) error {
	found, err := timeline.Find(ctx, db, d.Target)
	if err != nil || len(found) != 1 {
		return err
	}
	word, key, err := Confirmation(ctx, db, &found[0], d.Effect)
	if err == nil && d.Confirm == word && key != "" {
		d.Confirm = key
	}
	return err
}
