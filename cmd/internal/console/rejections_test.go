package console_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/rejection"
)

// The person on call comes from Now to the refused deliveries of a source, reads the next step for each reason, and
// admits a delivery after the secret was corrected.
func TestRejections_NextStepAndAdmission(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	corrected := false
	s.operator.Verify = func(context.Context, rejection.Rejection) (receipt.Delivery, error) {
		if !corrected {
			return receipt.Delivery{}, errors.New("no_matching_signature: no signature fits")
		}
		return receipt.Delivery{Source: "stripe", Provider: "stripe", Secret: "new", Events: []receipt.New{{EventID: "evt_late"}}}, nil
	}
	s.operator.Insert = func(context.Context, receipt.Delivery) ([]receipt.Outcome, error) {
		return []receipt.Outcome{{ReceiptID: parkedID, Status: receipt.Received}}, nil
	}
	const id = "00000000-0000-4000-8000-000000000001"
	s.exec(`insert into rejections (id, source, received_at, class, remote_addr, headers, body, body_size, truncated) values
		($1, 'stripe', now(), 'no_matching_signature', '192.0.2.7', '{}', 'x', 1, false),
		('00000000-0000-4000-8000-000000000002', 'stripe', now(), 'slow_body', '192.0.2.7', '{}', 'x', 1, true),
		('00000000-0000-4000-8000-000000000003', 'shop', now(), 'timestamp_too_old', '192.0.2.8', '{}', 'x', 1, false)`, id)
	ada, vera := s.as("ada", role.Operator), s.as("vera", role.Support)
	if now := ada.get("/").text; !strings.Contains(now, `href="/rejections?source=stripe"`) || strings.Contains(now, "pawl rejections list") || strings.Contains(now, "no_matching_signature") {
		t.Errorf("Now does not lead to the refused deliveries: %s", now)
	}
	page := ada.get("/rejections?source=stripe")
	for _, want := range []string{"Compare the secret of the source with the secret in the provider", "Let the provider send the delivery again", "no secret of the source fits the signature", "192.0.2.7"} {
		if !strings.Contains(page.words(), want) {
			t.Errorf("the page lacks %q: %s", want, page.words())
		}
	}
	admit := "/decide?" + url.Values{"target": {id}, "verb": {"admit"}}.Encode()
	if n := strings.Count(page.text, ">Check again and admit<"); n != 1 || !strings.Contains(page.text, strings.ReplaceAll(admit, "&", "&amp;")) {
		t.Errorf("%d links admit a delivery, want one: %s", n, page.text)
	}
	if got := vera.get("/rejections").text; strings.Contains(got, "Check again") || !strings.Contains(got, "the signature is too old") {
		t.Errorf("support sees %s", got)
	}
	if got := ada.get(admit).words(); !strings.Contains(got, "It would be refused") || !strings.Contains(got, "no signature fits") {
		t.Errorf("with the wrong secret: %s", got)
	}
	corrected = true
	if got := ada.get(admit).words(); !strings.Contains(got, "pawl stores evt_late") {
		t.Errorf("with the right secret: %s", got)
	}
	got := ada.post("/decide", url.Values{"verb": {"admit"}, "target": {id}, "reason": {"the secret was wrong"}, "request": {"A"}})
	if !strings.Contains(got.text, "the request is authentic, and pawl has stored it") || !strings.Contains(got.text, `href="/events/`+parkedID) {
		t.Errorf("the decision: %s", got.words())
	}
	if page := ada.get("/rejections?source=stripe").text; strings.Contains(page, ">Check again and admit<") {
		t.Error("an admitted delivery can be admitted again")
	}
}
