package console_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/cmd/internal/api"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/console"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

// sized is a console with the API, for a database from [fill].
type sized struct {
	t   testing.TB
	db  *pgxpool.Pool
	url string
	// dead, paid and unwanted are event IDs; middle is the ID of a receipt of half a year ago.
	dead, paid, unwanted, middle string
}

// newSized connects to the database as the console does.
func newSized(t testing.TB, dsn string, receipts int) *sized {
	t.Helper()
	options, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	schema.Bound(options, schema.Asking)
	s := &sized{t: t}
	if s.db, err = pgxpool.NewWithConfig(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.db.Close)
	if s.text(`select count(*) from (select from receipts limit 1) r`) == "0" {
		fill(t, s.db, receipts)
	}
	s.dead = s.text(`select event_id from receipts where status = 'dead' order by received_at limit 1`)
	s.middle = s.text(`select id from receipts where id > (select id from receipts where event_id = $1) order by id limit 1`, eventID(receipts/2))
	s.paid, s.unwanted = eventID(receipts/2/10*10+8), eventID(receipts/2/10*10)
	cfg := &config.Config{Dev: config.Development{Enabled: true}, API: config.API{StaleIfError: time.Minute}, Sources: map[string]config.Source{
		"stripe": {Provider: "stripe", Mode: webhook.Live, Secrets: []config.Secret{{Label: "first"}}},
	}}
	cfg.Console.Listen = "127.0.0.1:0"
	held := receipt.NewStore(s.db, receipt.Options{})
	t.Cleanup(held.Close)
	o := &decide.Operator{Verbs: operator.Verbs, DB: s.db, Audit: audit.New(s.db, slog.New(slog.DiscardHandler)), Temporal: away{}, TaskQueue: "pawl",
		Outlook: process.Outlook(cfg, s.db, held), Places: map[string][]string{decide.Source: {"stripe"}}}
	accesses := account.NewAccesses(s.db, 0)
	server, err := console.New(console.Options{Config: cfg, Operator: o, Log: slog.New(slog.DiscardHandler),
		Page: func(string, string) string { return "" },
		API: func(g *echo.Group, person func(*http.Request) (*decide.Person, error)) error {
			return api.Mount(g, api.Options{Operator: o, Config: cfg, Accesses: accesses, Person: person, Log: slog.New(slog.DiscardHandler)})
		}})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(server.Handler())
	t.Cleanup(front.Close)
	s.url = front.URL
	return s
}

func eventID(n int) string {
	return "evt_" + strings.Repeat("0", 24-len(strconv.FormatInt(int64(n), 16))) + strconv.FormatInt(int64(n), 16)
}

func (s *sized) text(sql string, args ...any) (text string) {
	s.t.Helper()
	if err := s.db.QueryRow(s.t.Context(), `select (`+sql+`)::text`, args...).Scan(&text); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
	return text
}

// pages returns the addresses of every page and of every read of the API, with each filter, and with filters that
// match nothing.
func (s *sized) pages() (all []string) {
	q := func(path string, filters ...string) {
		all = append(all, path)
		for _, f := range filters {
			all = append(all, path+"?"+f)
		}
	}
	q("/")
	q("/overview")
	q("/find", "q=A-18", "q="+s.paid, "q=ada5@example.com", "q=acct-5", "q=nothing", "q=job-1", "q=sub_5", "q=cus_5", "q=ch_18", "q=in_18", "q=dp_20", "q=acct_9", "q=txn_20", "q=price_gold", "q=49.00+USD",
		"q=finance-export:stripe:live:in_18", "q=stripe:"+s.paid, "q=49.00", "q=ACCT-5")
	for _, surface := range []string{"", "/api/v1"} {
		events := surface + "/events"
		for _, status := range receipt.Statuses {
			q(events + "?status=" + string(status))
		}
		q(events, "cursor="+s.middle, "reason_code=effect_failed", "reason_code=type_ignored", "reason_code=unknown", "reason_code=type_ignored&status=processed",
			"source=stripe", "source=unknown", "type=invoice.paid", "type=unknown", "source=stripe&type=charge.updated&status=ignored",
			"source=stripe&status=compensated", "type=invoice.paid&reason_code=effect_failed", "account=acct-5", "account=acct-0", "account=acct-0&status=dead",
			"object=in_18", "object=cus_0", "outage=1000", "outage=1", "outage=1000&account=acct-5", "outage=1000&status=dead", "account=acct-5&object=cus_5", "type=invoice.paid&cursor="+s.middle, "since=2d&until=1d")
		q(surface+"/accounts", "mode=live", "mode=test", "access=active", "access=suspended", "access=none", "plan=pro", "plan=unknown", "status=past_due", "status=unknown",
			"access=suspended&plan=pro", "status=past_due&plan=pro", "cursor=live/acct-5")
		q(surface+"/tasks", "mode=live", "mode=test", "kind=dispute", "kind=unknown", "account=acct-400", "account=unknown", "about=price_1", "cursor=live/dispute/dp_400")
		q(surface+"/payments/unassigned", "mode=live", "mode=test")
		const entry = "2026-09-01T12:00:00Z/finance-export:stripe:live:in_18"
		q(surface+"/entries", "mode=test", "account=acct-5", "account=acct-0", "account=unknown", "kind=payment", "kind=refund", "kind=dispute", "account=acct-5&kind=refund",
			"since=30d&until=23d", "since=1d", "cursor="+entry, "kind=payment&cursor="+entry, "account=acct-5&cursor="+entry)
		q(surface+"/entries/skipped", "mode=test", "account=acct-5", "kind=refund", "since=1d")
		q(surface+"/entries/skipped/sums", "mode=test", "account=acct-5", "kind=refund", "since=1d")
		q(surface+"/entries/sums", "mode=test", "account=acct-5", "kind=refund", "kind=dispute", "since=30d&until=23d", "since=1d", "cursor=2026-09-01/usd")
		const action = "/renewal/sub_5"
		q(surface+"/scheduled", "mode=test", "account=acct-5", "account=acct-0", "account=unknown", "until=3d", "since=7d&until=8d", "account=acct-5&since=1d",
			"cursor="+time.Now().UTC().AddDate(0, 0, 3).Format(time.RFC3339Nano)+action, "account=acct-5&cursor=2026-01-01T00:00:00Z"+action)
		const email = "2026-09-01T12:00:00Z/receipt-email:stripe:live:in_18"
		q(surface+"/emails", "mode=test", "account=acct-5", "account=acct-0", "account=unknown", "kind=receipt-email", "kind=dunning-notice", "outcome=sent", "outcome=failed",
			"kind=receipt-email&outcome=unclear", "account=acct-5&outcome=sent", "since=30d&until=23d", "since=1d", "cursor="+email, "account=acct-5&cursor="+email)
		q(surface + "/approvals")
		q(surface+"/jobs", "cursor=job-2")
		q(surface+"/effects", "state=failed", "state=uncertain", "prefix=receipt-email:", "prefix=finance-export:&state=failed", "prefix=unknown:", "cursor=finance-export:stripe:live:in_18")
		q(surface+"/rejections", "source=stripe")
		q(surface + "/sinks")
		q(surface+"/outages", "mode=test", "sink=finance", "sink=unknown", "since=1d", "since=30d&until=23d", "until=2020-01-01", "cursor="+url.QueryEscape("2026-09-01T12:00:00Z/500"))
		q(surface+"/sources", "unused_for=1h")
		q(surface + "/rules")
		q(surface + "/people")
		q(surface + "/tokens")
		q(surface+"/audit", "target="+eventID(257), "target=unknown", "actor=ada", "actor=unknown", "action=skip", "action=unknown", "cursor=30", "since=2026-01-01T00:00:00Z")
	}
	q("/events/" + s.dead)
	q("/events/" + s.paid)
	q("/events/" + s.unwanted)
	q("/accounts/live/acct-5")
	q("/accounts/live/acct-0")
	q("/decide", "verb=retry&target="+s.dead, "verb=compensate&target="+s.dead, "verb=replay&target="+s.paid, "verb=hold-account&target=acct-5&mode=live")
	q("/decide/many", "verb=retry&status=dead", "verb=retry&status=dead&preview=effects", "verb=approve&status=needs_review", "verb=retry&status=dead&reason_code=effect_failed")
	q("/tasks/dp_400")
	q("/jobs/job-1")
	q("/jobs/job-2")
	q("/sign-in")
	q("/static/console.css")
	return append(all, s.asked()...)
}

// asked returns the addresses of the API that are not pages of the console.
func (s *sized) asked() (all []string) {
	for _, path := range []string{"openapi.json", "openapi.yaml", "accounts/acct-5", "accounts/acct-0", "accounts/cus_5", "accounts/acct-5/access", "accounts/cus_5/access",
		"invoices/in_18", "invoices/A-18", "events/" + s.dead, "events/" + s.paid, "events/" + s.paid + "/payload",
		"tasks/dp_400", "jobs/job-1?result=open", "jobs/job-1?result=failed"} {
		all = append(all, "/api/v1/"+path)
	}
	return all
}

// get reads a page and returns its status.
func (s *sized) get(path string) int {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode
}

// answers reports whether a status is acceptable for a page, including a search without a result.
func answers(status int) bool { return status < 400 || status == http.StatusNotFound }

// The list of measured addresses contains every page and every read of the API.
func (s *sized) walksAll() {
	s.t.Helper()
	paths := s.pages()
	walked := func(pattern string) bool {
		at := regexp.MustCompile("^" + regexp.MustCompile(`:\w+|\\\{\w+\\\}`).ReplaceAllString(regexp.QuoteMeta(pattern), `[^/?]+`) + `(\?|$)`)
		return slices.ContainsFunc(paths, at.MatchString)
	}
	for _, r := range console.Routes(&config.Config{Dev: config.Development{Enabled: true}}) {
		if r.Method == http.MethodGet && !strings.HasPrefix(r.Path, "/sign-in/") && !walked(r.Path) {
			s.t.Errorf("the test does not measure %s", r.Path)
		}
	}
	var document struct{ Paths map[string]map[string]any }
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.url+"/api/v1/openapi.json", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if err := json.NewDecoder(res.Body).Decode(&document); err != nil || len(document.Paths) < 20 {
		s.t.Fatalf("%d paths, %v", len(document.Paths), err)
	}
	for path, methods := range document.Paths {
		if methods["get"] != nil && !walked(api.Prefix+path) {
			s.t.Errorf("the test does not measure %s", path)
		}
	}
}

// The cost of a page does not depend on the number of receipts: it reads the rows that it shows and a few more.
func TestPages_ReadFewRows(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a table of 50,000 receipts takes long to fill")
	}
	const receipts, most = 50_000, 2_000
	s := newSized(t, schematest.NewDSN(t), receipts)
	s.walksAll()
	for _, path := range s.pages() {
		schematest.RowsRead(t, s.db)
		if status := s.get(path); !answers(status) {
			t.Errorf("%s: %d", path, status)
		}
		for table, rows := range schematest.RowsRead(t, s.db) {
			// A sum reads the entries of its days.
			if sums := strings.Contains(path, "/entries/sums") && table == "finance_entries"; rows > most && !(sums && rows < 2*most) {
				t.Errorf("%s reads %d rows of %s", path, rows, table)
			}
		}
	}
}

// The benchmark measures each page with PAWL_RECEIPTS receipts, and prints the average and the slowest time. The
// migrated database at PAWL_FILLED is filled once and kept. Without this variable, the benchmark uses a temporary
// database.
func BenchmarkPages_ManyReceipts(b *testing.B) {
	receipts, err := strconv.Atoi(os.Getenv("PAWL_RECEIPTS"))
	if err != nil {
		receipts = 100_000
	}
	dsn := os.Getenv("PAWL_FILLED")
	if dsn == "" {
		dsn = schematest.NewDSN(b)
	}
	s := newSized(b, dsn, receipts)
	for _, path := range s.pages() {
		b.Run(strings.ReplaceAll(path, "/", "."), func(b *testing.B) {
			var slowest time.Duration
			for b.Loop() {
				begin := time.Now()
				if status := s.get(path); !answers(status) {
					b.Errorf("%s: %d", path, status)
				}
				slowest = max(slowest, time.Since(begin))
			}
			b.ReportMetric(slowest.Seconds()*1000, "slowest-ms")
		})
	}
}
