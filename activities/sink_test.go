package activities_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/temporal"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/activitiestest"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing"
)

func sink(url string) activities.Sink {
	return activities.Sink{
		URL: url, Token: "token", Client: activities.NewHTTPClient(),
		Policy: effect.Policy{Timeout: 500 * time.Millisecond, MaxFailures: 3, KeyLifetime: time.Hour},
	}
}

func (b *bundle) finance(url string) *activities.Finance {
	return &activities.Finance{Effects: b.effects, Sink: sink(url)}
}

func (b *bundle) provisioning(url string) *activities.Provisioning {
	return &activities.Provisioning{Effects: b.effects, Billing: b.billing, Sink: sink(url)}
}

func TestExportToFinance_WhatIsSent(t *testing.T) {
	b := setup(t)
	s := activitiestest.NewSink(t)
	f := fact(uuid.NewString())
	in := input("finance-export", f)
	must(b, effect.Done, b.finance(s.URL).ExportToFinance, in)
	want := activitiestest.Request{
		Method: "POST", Path: "/entries", Key: in.Effect.Key, Authorization: "Bearer token", ContentType: "application/json", Applied: true,
		CloudEvent: map[string]string{},
		Body:       `{"type":"payment","account":"acme","invoice":"in_1","amount":4900,"currency":"usd","plan":"pro","paid_at":"2026-03-01T00:01:00Z","mode":"live","source_event":"evt_1"}`,
	}
	if got := s.Requests(); !reflect.DeepEqual(got, []activitiestest.Request{want}) {
		t.Errorf("requests\n got %+v\nwant %+v", got, want)
	}
	undo := input("reverse-finance-entry", f)
	undo.Effect.Compensates = in.Effect.Key
	must(b, effect.Done, b.finance(s.URL).ReverseFinanceEntry, undo)
	if got := s.Requests()[1].Body; !strings.Contains(got, `"type":"reversal"`) || !strings.Contains(got, `"amount":4900`) || !strings.Contains(got, `"reverses":"`+in.Effect.Key+`"`) {
		t.Errorf("reversal %s", got)
	}
	wantRows := []string{"payment 4900 usd ref:" + in.Effect.Key, "reversal 4900 usd ref:" + undo.Effect.Key}
	if got := b.lines(`select concat_ws(' ', kind, amount, currency, reference) from finance_entries order by kind`); !slices.Equal(got, wantRows) {
		t.Errorf("entries\n got %q\nwant %q", got, wantRows)
	}
}

// Whatever happens to a request, its repeats carry the same bytes under the same key, and it is applied once.
func TestExportToFinance_EveryBreak_AppliedOnce(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cue   activitiestest.Cue
		state effect.State // "" is tried again, and succeeds
	}{
		"503":                 {activitiestest.Cue{Status: 503}, ""},
		"503 after it":        {activitiestest.Cue{Status: 503, Apply: true}, ""},
		"429":                 {activitiestest.Cue{Status: 429}, ""},
		"cut before":          {activitiestest.Cue{Drop: true}, ""},
		"cut after":           {activitiestest.Cue{Drop: true, Apply: true}, ""},
		"unanswered":          {activitiestest.Cue{Hang: true}, ""},
		"unanswered after it": {activitiestest.Cue{Hang: true, Apply: true}, ""},
		"400":                 {activitiestest.Cue{Status: 400}, effect.Refused},
		"404":                 {activitiestest.Cue{Status: 404}, effect.Refused},
		"a redirect":          {activitiestest.Cue{Status: 307, Header: map[string]string{"Location": "/elsewhere"}}, ""},
		"protocols switched":  {activitiestest.Cue{Status: 101, Header: map[string]string{"Connection": "Upgrade", "Upgrade": "websocket"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			s := activitiestest.NewSink(t)
			// A warm connection: breaks of a used one are what net/http would mend by itself.
			warm := fact(uuid.NewString())
			warm.Invoice = "in_0"
			finance := b.finance(s.URL)
			must(b, effect.Done, finance.ExportToFinance, input("finance-export", warm))
			s.Next(tt.cue)
			in := input("finance-export", fact(uuid.NewString()))
			if tt.state != "" {
				must(b, tt.state, finance.ExportToFinance, in)
				if got := s.Requests(); len(got) != 2 {
					t.Errorf("%d requests, want the one that was refused", len(got)-1)
				}
				return
			}
			_, err := do(b, finance.ExportToFinance, in)
			wantAgain(t, err)
			if got := s.Requests(); len(got) != 2 {
				t.Errorf("%d requests in one attempt", len(got)-1)
			}
			in.Fact.EventID = "evt_2" // the second event would make other bytes
			must(b, effect.Done, finance.ExportToFinance, in)
			got := s.Requests()[1:]
			if len(got) != 2 || got[0].Body != got[1].Body || got[0].Key != got[1].Key {
				t.Errorf("requests %+v, want the same twice", got)
			}
			if applied := s.Applied(); len(applied) != 2 {
				t.Errorf("applied %+v, want it once", applied[1:])
			}
		})
	}
}

func TestExportToFinance_RetryAfter(t *testing.T) {
	b := setup(t)
	s := activitiestest.NewSink(t)
	s.Next(activitiestest.Cue{Status: 429, Header: map[string]string{"Retry-After": "17"}})
	_, err := do(b, b.finance(s.URL).ExportToFinance, input("finance-export", fact(uuid.NewString())))
	var app *temporal.ApplicationError
	if !errors.As(err, &app) || app.NextRetryDelay() < 17*time.Second || app.NextRetryDelay() > 21*time.Second {
		t.Errorf("error %v, want one that waits 17s", err)
	}
}

func TestExportToFinance_RefusalTellsTheSinksReason(t *testing.T) {
	b := setup(t)
	s := activitiestest.NewSink(t)
	s.Next(activitiestest.Cue{Status: 422, Header: map[string]string{"Content-Type": "application/json"}, Body: `{"error":"period closed","stack":"secret"}`})
	got := must(b, effect.Refused, b.finance(s.URL).ExportToFinance, input("finance-export", fact(uuid.NewString())))
	if !strings.HasSuffix(got.Reason, "answered 422: period closed") || got.MayHaveHappened() {
		t.Errorf("result %+v", got)
	}
}

// What breaks before there is a connection has told the other side nothing.
func TestExportToFinance_NotConnected_NotInDoubt(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + listener.Addr().String()
	_ = listener.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and never a word
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	untrusted.StartTLS()
	t.Cleanup(untrusted.Close)
	for name, url := range map[string]string{
		"nobody listens": nobody, "certificate not trusted": untrusted.URL, "no handshake": "https://" + silent.Addr().String(),
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			finance := b.finance(url)
			in := input("finance-export", fact(uuid.NewString()))
			for range 2 {
				_, err := do(b, finance.ExportToFinance, in)
				wantAgain(t, err)
			}
			if got := must(b, effect.Exhausted, finance.ExportToFinance, in); got.MayHaveHappened() {
				t.Errorf("result %+v: what never left cannot have happened", got)
			}
		})
	}
}

// What went wrong is stored, logged and shown in Temporal; the tokens that a URL may hold are not.
func TestExportToFinance_TokensInURL_NotTold(t *testing.T) {
	b := setup(t)
	s := activitiestest.NewSink(t)
	in := input("finance-export", fact(uuid.NewString()))
	url := strings.Replace(s.URL, "http://", "http://ann:hush1@", 1) + "/hush2?code=hush3"
	for _, cue := range []activitiestest.Cue{{Drop: true}, {Hang: true}} {
		s.Next(cue)
		_, err := do(b, b.finance(url).ExportToFinance, in)
		wantAgain(t, err)
		if strings.Contains(err.Error(), "hush") {
			t.Errorf("the error is %q", err)
		}
	}
	s.Next(activitiestest.Cue{Drop: true})
	host := strings.TrimPrefix(s.URL, "http://")
	if got := must(b, effect.Exhausted, b.finance(url).ExportToFinance, in); got.Reason != host+": EOF" {
		t.Errorf("the reason is %q, want the host and what went wrong", got.Reason)
	}
}

func TestProvisionWorkspace_UpgradeAndBack(t *testing.T) {
	b := setup(t)
	s := activitiestest.NewSink(t)
	p := b.provisioning(s.URL)
	step := func(f billing.InvoicePaid, want string) {
		t.Helper()
		must(b, effect.Done, p.ProvisionWorkspace, input("provision-workspace", f))
		if got := b.lines(`select plan || ' ' || state from workspaces`); fmt.Sprint(got) != "["+want+"]" {
			t.Errorf("workspace %v, want %s", got, want)
		}
	}
	starter, pro := fact(uuid.NewString()), fact(uuid.NewString())
	starter.Plan, pro.Invoice = "starter", "in_2"
	for _, f := range []billing.InvoicePaid{starter, pro} {
		b.exec(`insert into invoices (mode, id, account, subscription, status, plan, amount, currency, period_start, fence_at, fence_event)
			values ('live', $1, 'acme', 'sub_1', 'paid', $2, 1, 'usd', $3, now(), $1)`, f.Invoice, f.Plan, f.PeriodStart)
	}
	step(starter, "starter active")
	step(pro, "pro active")
	release := func(f billing.InvoicePaid, want string) {
		t.Helper()
		in := input("release-workspace", f)
		in.Effect.Compensates = input("provision-workspace", f).Effect.Key
		defer b.exec(`update invoices set stands = false where id = $1`, f.Invoice)
		must(b, effect.Done, p.ReleaseWorkspace, in)
		if got := b.lines(`select plan || ' ' || state from workspaces`); fmt.Sprint(got) != "["+want+"]" {
			t.Errorf("workspace %v, want %s", got, want)
		}
	}
	release(pro, "starter active")
	release(starter, "starter released")
	var sent []string
	for _, r := range s.Applied() {
		sent = append(sent, r.Method+" "+r.Path+" "+r.Body)
	}
	want := []string{
		`PUT /workspaces/acme {"account":"acme","plan":"starter","state":"active","invoice":"in_1","mode":"live"}`,
		`PUT /workspaces/acme {"account":"acme","plan":"pro","state":"active","invoice":"in_2","mode":"live"}`,
		`PUT /workspaces/acme {"account":"acme","plan":"starter","state":"active","invoice":"in_2","mode":"live"}`,
		`PUT /workspaces/acme {"account":"acme","plan":"starter","state":"released","invoice":"in_1","mode":"live"}`,
	}
	if !slices.Equal(sent, want) {
		t.Errorf("sent\n got %q\nwant %q", sent, want)
	}
}

// Every try sends the bytes of the first; when these are no longer what the account has paid for, none does.
func TestAlignWorkspace_ChangedBetweenTries_NotSentAgain(t *testing.T) {
	b := setup(t)
	s := activitiestest.NewSink(t)
	p := b.provisioning(s.URL)
	b.exec(`insert into invoices (mode, id, account, subscription, status, plan, amount, currency, period_start, fence_at, fence_event)
		values ('live', 'in_0', 'acme', 'sub_1', 'paid', 'starter', 1, 'usd', '2026-02-01', now(), 'evt_0')`)
	s.Next(activitiestest.Cue{Status: 503})
	in := input("align-workspace", fact(uuid.NewString()))
	_, err := do(b, p.AlignWorkspace, in)
	wantAgain(t, err)
	b.exec(`update invoices set stands = false`)
	must(b, effect.Skipped, p.AlignWorkspace, in)
	if got := s.Requests(); len(got) != 1 || !strings.Contains(got[0].Body, `"plan":"starter","state":"active"`) {
		t.Errorf("requests %+v, want the first try alone", got)
	}
	in.Fact.Invoice, in.Effect.Key = "in_0", "align-workspace:stripe:live:acme:in_0"
	must(b, effect.Done, p.AlignWorkspace, in)
	if got := b.lines(`select state from workspaces`); fmt.Sprint(got) != "[released]" {
		t.Errorf("workspace %v, want it released", got)
	}
}

// Another subscription of the account is paid for between two tries of a release. The second still sends the bytes of
// the first; that this is not what the account has paid for is known afterwards.
func TestReleaseWorkspace_ChangedBetweenTries_DiffersAfterwards(t *testing.T) {
	b := setup(t)
	s := activitiestest.NewSink(t)
	p := b.provisioning(s.URL)
	f := fact(uuid.NewString())
	s.Next(activitiestest.Cue{Status: 503})
	in := input("release-workspace", f)
	_, err := do(b, p.ReleaseWorkspace, in)
	wantAgain(t, err)
	b.exec(`insert into invoices (mode, id, account, subscription, status, plan, amount, currency, period_start, fence_at, fence_event)
		values ('live', 'in_2', 'acme', 'sub_2', 'paid', 'team', 1, 'usd', '2026-03-01', now(), 'evt_2')`)
	other := input("provision-workspace", f)
	other.Fact.Invoice, other.Fact.Subscription, other.Fact.Plan, other.Effect.Key = "in_2", "sub_2", "team", "provision-workspace:stripe:live:acme:in_2"
	must(b, effect.Done, p.ProvisionWorkspace, other)
	must(b, effect.Done, p.ReleaseWorkspace, in)
	requests := s.Requests()
	if last := requests[len(requests)-1].Body; !strings.Contains(last, `"state":"released"`) {
		t.Fatalf("the last request is %s", last)
	}
	if got := b.lines(`select state from workspaces`); fmt.Sprint(got) != "[released]" {
		t.Errorf("workspace %v, want what was sent last", got)
	}
}

func TestProvisionWorkspace_AccountInPath_Escaped(t *testing.T) {
	b := setup(t)
	s := activitiestest.NewSink(t)
	f := fact(uuid.NewString())
	f.Account = "../entries?x=1#"
	must(b, effect.Done, b.provisioning(s.URL).ProvisionWorkspace, input("provision-workspace", f))
	if got := s.Requests()[0].Path; got != "/workspaces/../entries?x=1#" {
		t.Errorf("path %q", got)
	}
}

func TestProvisionWorkspace_NewerPeriodPaid_Skipped(t *testing.T) {
	b := setup(t)
	s := activitiestest.NewSink(t)
	b.exec(`insert into subscriptions (mode, id, account, status, fence_at, fence_event) values ('live', 'sub_1', 'acme', 'active', '2026-04-01', 'evt_newer')`)
	got := must(b, effect.Skipped, b.provisioning(s.URL).ProvisionWorkspace, input("provision-workspace", fact(uuid.NewString())))
	if got.Reason != "superseded by newer state of evt_newer" || len(s.Requests()) != 0 {
		t.Errorf("result %+v after %d requests", got, len(s.Requests()))
	}
}

// Two invoices of one account: their workspace requests never overlap, so that none overtakes another.
func TestProvisionWorkspace_OneAccount_OneAtATime(t *testing.T) {
	b := setup(t)
	s := activitiestest.NewSink(t)
	held := make(chan struct{})
	s.Next(activitiestest.Cue{Until: held})
	p := b.provisioning(s.URL)
	p.Sink.Policy.Timeout = 20 * time.Second
	first, second := fact(uuid.NewString()), fact(uuid.NewString())
	second.Invoice = "in_2"
	var group sync.WaitGroup
	group.Go(func() { must(b, effect.Done, p.ProvisionWorkspace, input("provision-workspace", first)) })
	b.until(func() bool { return len(b.lines(`select key from effects where state = 'claimed'`)) == 1 })
	_, err := do(b, p.ProvisionWorkspace, input("provision-workspace", second))
	var app *temporal.ApplicationError
	if !errors.As(err, &app) || app.Type() != effect.TypeNotYet {
		t.Errorf("error %v, want the second to wait for the first", err)
	}
	close(held)
	group.Wait()
	must(b, effect.Done, p.ProvisionWorkspace, input("provision-workspace", second))
	if got := s.Applied(); len(got) != 2 || !strings.Contains(got[1].Body, "in_2") {
		t.Errorf("applied %+v", got)
	}
}
