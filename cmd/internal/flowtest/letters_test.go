package flowtest

import (
	"context"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/activities/letters"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// The preview of an e-mail is equal to the sent e-mail, and pawl can show it afterwards. The preview contains the
// customer's name only for a person who has given a reason. If the e-mail would not be sent, the preview reports
// that.
func TestLetters_ShownAsTheyGoOut(t *testing.T) {
	t.Parallel()
	r := newIdleRig(t, false, nil)
	paid := purchase(t, "letter-"+uuid.NewString()[:8], "invoice.paid", "starter")
	r.receive(paid)
	shown := func(will workflows.Will) event.PreviewedLetter {
		t.Helper()
		found, err := event.ShowLetters(t.Context(), r.operator(), paid.ID)
		if err != nil || len(found) != 1 || found[0].Letter.Template != letters.Receipt || found[0].Will != will {
			t.Fatalf("shown: %+v, %v; want one letter that %q", found, err, will)
		}
		if w := found[0].Letter; w.To != "(masked)" || strings.Contains(w.Text+w.Subject, canary) {
			t.Errorf("not masked: %+v", w)
		}
		return found[0]
	}
	all := r.Config.Email.Set
	none, err := letters.Load("", letters.English, letters.Names())
	if err != nil {
		t.Fatal(err)
	}
	r.Config.Email.Set = none
	if off := shown(workflows.WillLeave); off.Reason != "the e-mail receipt is switched off" || off.Letter.Text != "" {
		t.Errorf("off: %+v, %+v", off, off.Letter)
	}
	r.Config.Email.Set = all
	first := shown(workflows.WillRun)
	if !strings.Contains(first.Letter.Text, "Plan: starter") {
		t.Errorf("shown before it goes out: %+v", first.Letter)
	}
	if sent := r.journal("email"); len(sent) != 0 {
		t.Fatalf("sent by showing it: %v", sent)
	}
	r.run(func(ctx context.Context) {
		if err := r.RunWorker(ctx); err != nil {
			t.Errorf("worker: %v", err)
		}
	})
	r.status(paid, receipt.Processed)
	sent := r.journal("email")
	if len(sent) != 1 || sent[0].Body["subject"] != first.Letter.Subject {
		t.Errorf("sent %v, shown %+v", sent, first.Letter)
	}
	if again := shown(workflows.WillStay); *again.Letter != *first.Letter {
		t.Errorf("shown as %+v, and afterwards as %+v", first.Letter, again.Letter)
	}
	whole, _ := r.says("ada", event.RevealEmails.Name, paid.ID, "the customer asks", decide.Args{}).Result.([]event.PreviewedLetter)
	if len(whole) != 1 || !strings.HasPrefix(whole[0].Letter.To, canary) {
		t.Errorf("revealed: %+v", whole)
	}
	if got := r.rows(`select actor || ' ' || reason from operator_actions where action = $1 and target = $2`, event.RevealEmails.Name, paid.ID); len(got) != 1 || got[0] != "ada the customer asks" {
		t.Errorf("the trail has %v", got)
	}
}
