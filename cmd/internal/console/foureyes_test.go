package console_test

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/schema/receipt"
)

// SignalWithStartWorkflow accepts the run of a job.
func (away) SignalWithStartWorkflow(context.Context, string, string, any, client.StartWorkflowOptions, any, ...any) (client.WorkflowRun, error) {
	return nil, nil
}

// insertPaid stores a live invoice.paid of 400.00.
func insertPaid(t *testing.T, receipts *receipt.Store, id string) {
	t.Helper()
	e, err := forge.New(forge.Params{Provider: stripe.Provider, EventID: id, Type: "invoice.paid", Live: true, Amount: 40000, At: time.Now()}, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := receipts.Insert(t.Context(), receipt.Delivery{Source: "stripe", Provider: "stripe", ReceivedAt: time.Now(), Header: http.Header{},
		Events: []receipt.New{{Mode: "live", EventID: e.ID, Identity: receipt.ByID, Type: e.Type, Status: receipt.Received, Body: e.Body}}}); err != nil {
		t.Fatal(err)
	}
}

// A decision about many events with much money is listed on the first page, with a link for the second person.
func TestFourEyes_Many_WaitsAndIsFound(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	receipts := receipt.NewStore(s.db, receipt.Options{})
	t.Cleanup(receipts.Close)
	s.operator.FourEyes, s.operator.Outlook = true, process.Outlook(s.cfg, s.db, receipts)
	for i := range 3 {
		insertPaid(t, receipts, fmt.Sprint("evt_", i))
	}
	s.exec(`update receipts set status = 'needs_review', reason = 'id_collision: x'`)
	ada, bob := s.as("ada", role.Finance), s.as("bob", role.Finance)
	many := func(b *browser, request string, more ...string) *answer {
		t.Helper()
		if len(more) > 0 {
			return b.post("/decide/many", url.Values{"pending": more, "count": {"3"}, "reason": {"seen"}, "request": {request}})
		}
		return b.post("/decide/many", url.Values{"verb": {"approve"}, "status": {"needs_review"}, "source": {"stripe"}, "count": {"3"}, "rate": {"7"}, "reason": {"<i>"}, "request": {request}})
	}
	if got := many(ada, "ADAADAADA"); got.StatusCode != http.StatusAccepted || !strings.Contains(got.text, "Waits for a second person") {
		t.Fatalf("ada: %d: %s", got.StatusCode, got.text)
	}
	home := bob.get("/")
	link := regexp.MustCompile(`href="(/decide/many[^"]*)" title="confirm it, as the second person"`).FindStringSubmatch(home.text)
	if link == nil || !strings.Contains(home.text, "Approve: 3 events") || !strings.Contains(home.text, "requested by ada") {
		t.Fatalf("the first page leads nowhere: %s", home.text)
	}
	// The page appears at once and links to the preview.
	page := bob.get(html.UnescapeString(link[1])).text
	later := regexp.MustCompile(`data-later="([^"]*)"`).FindStringSubmatch(page)
	if later == nil || !strings.Contains(page, "3 events") || !strings.Contains(page, "evt_2") {
		t.Fatalf("bob sees %s", page)
	}
	would := html.UnescapeString(later[1])
	if got := bob.get(would); got.StatusCode != http.StatusOK || !strings.Contains(got.text, "If you confirm, it is done") || !strings.Contains(got.text, "&lt;i&gt;") ||
		!strings.Contains(got.words(), "customer Gets the order of the event") {
		t.Errorf("bob sees %d: %s", got.StatusCode, got.text)
	}
	eve := s.as("eve", role.Viewer)
	if got := eve.get(would); got.StatusCode != http.StatusForbidden || strings.Contains(got.text, "What would happen") || !strings.Contains(got.text, "a person with the role") {
		t.Errorf("eve, who may not decide, sees a preview, or not who may: %s", got.text)
	}
	if got := ada.get(would); !strings.Contains(got.text, "you requested this decision") {
		t.Errorf("ada sees %s", got.text)
	}
	own := ada.get(html.UnescapeString(link[1]))
	if words := own.words(); strings.Contains(own.text, "<button class=\"main\">") || !strings.Contains(own.text, `aria-disabled="true"`) ||
		!strings.Contains(words, "Confirm: Approve another person must confirm it") || !strings.Contains(words, "Withdraw the request") {
		t.Errorf("ada, who requested the job, can confirm it, or does not see why not: %s", words)
	}
	hidden := regexp.MustCompile(`name="pending" value="([^"]*)"`).FindStringSubmatch(page)
	if hidden == nil {
		t.Fatalf("bob's form confirms nothing: %s", page)
	}
	if got := many(bob, "BOBBOBBOB", hidden[1]); got.StatusCode != http.StatusSeeOther {
		t.Errorf("bob: %d: %s", got.StatusCode, got.text)
	}
	if n := s.count(`select count(*) from jobs where who = 'bob' and asked_by = 'ada' and items = 3`); n != 1 || s.count(`select count(*) from pending_decisions`) != 0 {
		t.Errorf("%d jobs of both", n)
	}
	if got := bob.get("/"); strings.Contains(got.text, "Second person") {
		t.Error("it is made, and still waits on the first page")
	}
}

// The second person reaches the page that confirms a decision from the list of the waiting decisions and from the event.
// The first person reads there that another person must confirm it.
func TestFourEyes_WaitingDecision_LinkedFromItsPages(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	receipts := receipt.NewStore(s.db, receipt.Options{})
	t.Cleanup(receipts.Close)
	s.operator.FourEyes, s.operator.Outlook = true, process.Outlook(s.cfg, s.db, receipts)
	s.parksPaid()
	s.exec(`update receipts set status = 'needs_review', reason = 'id_collision: x', workflow_id = '', waits = null`)
	ada, bob, eve := s.as("ada", role.Finance), s.as("bob", role.Finance), s.as("eve", role.Viewer)
	asked := ada.post("/decide", url.Values{"verb": {"approve"}, "target": {"evt_1"}, "reason": {"seen"}, "request": {"A"}})
	if !strings.Contains(asked.text, `href="/approvals">See all waiting decisions`) {
		t.Errorf("the result does not lead to the waiting decisions: %s", asked.words())
	}
	link := regexp.MustCompile(`href="(/decide[^"]*pending=[^"]*)"[^>]*>Check and confirm<`)
	for _, path := range []string{"/approvals", "/events/evt_1", "/"} {
		page := bob.get(path)
		found := link.FindStringSubmatch(page.text)
		if found == nil {
			t.Fatalf("%s offers no confirmation: %s", path, page.words())
		}
		href := html.UnescapeString(found[1])
		if got := bob.get(href); !strings.Contains(got.text, ">Confirm: Approve</button>") {
			t.Errorf("%s leads to %s: %s", path, href, got.words())
		}
		own := ada.get(href).words()
		if !strings.Contains(own, "you requested this decision") || !strings.Contains(own, "another person must confirm it") || strings.Contains(own, "It would be refused") {
			t.Errorf("ada reads %s", own)
		}
		if got := eve.get(path); link.MatchString(got.text) {
			t.Errorf("%s: eve, who may not decide, can follow the confirmation", path)
		}
		if got := ada.get(path); link.MatchString(got.text) {
			t.Errorf("%s: ada can confirm her own request", path)
		}
	}
	list := bob.get("/approvals")
	for _, want := range []string{`href="/events/evt_1"`, `href="/accounts/live/acme"`, ">Approve<", "4,800.00 USD"} {
		if !strings.Contains(list.text, want) {
			t.Errorf("the list lacks %s: %s", want, list.text)
		}
	}
	if page := bob.get("/events/evt_1").words(); strings.Count(page, "Withdraw the request") != 1 {
		t.Errorf("the event offers to withdraw the request not once: %s", page)
	}
	s.exec(`update pending_decisions set money = '{}'`)
	if now := bob.get("/").words(); !strings.Contains(now, " requested by ada") || strings.Contains(now, ", requested by ada") {
		t.Errorf("how much: %s", now)
	}
}
