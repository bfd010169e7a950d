package api

import (
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/receipt"
)

// A response may be cached for five seconds, and not beyond the next scheduled action. If the client has the current
// response, it gets 304.
func TestAccess_ETagAndAge(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.exec(world...)
	s.exec(`insert into accounts (mode, id, provider, target_version, target_state, target_plan) values ('live', 'short', 'stripe', 1, 'active', 'pro')`,
		`insert into grants (mode, object, account, plan, ends) values ('live', 'cs_1', 'short', 'pro', now() + interval '2800 milliseconds')`)
	path := "/accounts/{id}/access"
	first := s.get(path, "acme", "mode=live")
	e := want[account.Entitled](t, first, http.StatusOK)
	if e.Plan != "pro" || e.Seats != 3 || e.Version != 2 || e.Until == nil || len(e.Reasons) != 1 || e.Reasons[0].Event != "evt_1" || len(e.Features) != 2 {
		t.Errorf("acme may use %+v", e)
	}
	if got := first.Header.Get("Cache-Control"); got != "private, max-age=5, stale-if-error=900" || first.Header.Get("Age") != "0" {
		t.Errorf("it may be kept as %q, of age %q", got, first.Header.Get("Age"))
	}
	tag := first.Header.Get("ETag")
	for header, status := range map[string]int{tag: 304, "W/" + tag: 304, `"x", ` + tag: 304, "*": 304, `"x"`: 200, "": 200} {
		got := s.get(path, "acme", "mode=live", "If-None-Match", header)
		if got.StatusCode != status || got.Header.Get("ETag") != tag || (status == 304) != (len(got.body) == 0) {
			t.Errorf("with If-None-Match %s: answered %d, %s", header, got.StatusCode, got.body)
		}
		if age := got.Header.Get("Age"); age == "0" {
			t.Error("a cached response claims to be new")
		}
	}
	short := s.get(path, "short", "")
	if got := short.Header.Get("Cache-Control"); got != "private, max-age=2, stale-if-error=900" && got != "private, max-age=1, stale-if-error=900" {
		t.Errorf("what ends within three seconds may be kept as %q", got)
	}
	// With another ID the account is read again, because the response contains the ID.
	s.exec(`update accounts set target_version = 3, target_plan = 'team' where id = 'acme' and mode = 'live'`)
	if other := s.get(path, "cus_1", ""); other.Header.Get("ETag") == tag || want[account.Entitled](t, other, http.StatusOK).Version != 3 {
		t.Errorf("after a change: %s with %s", other.body, other.Header.Get("ETag"))
	}
}

// While the database is down, the last known access is returned.
func TestAccess_DatabaseAway(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.exec(world...)
	path := "/accounts/{id}/access"
	want[account.Entitled](t, s.get(path, "acme", "mode=live"), http.StatusOK)
	s.away()
	if e := want[account.Entitled](t, s.get(path, "acme", "mode=live"), http.StatusOK); e.Plan != "pro" {
		t.Errorf("a cached account: %+v", e)
	}
	got := s.get(path, "late", "mode=live")
	if p := want[Problem](t, got, http.StatusServiceUnavailable); p.Code != "away" || got.Header.Get("Retry-After") == "" {
		t.Errorf("an account outside of the cache: %+v with %v", p, got.Header)
	}
}

// number returns the environment variable as a number.
func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// The benchmark reads the access of accounts at a fixed rate while deliveries arrive. PAWL_READS and PAWL_INTAKE are
// rates per second, PAWL_SECONDS is the duration, and PAWL_ACCOUNTS the number of accounts: some of them are read
// often. Each duration is measured from the planned start of its request. The client runs on the same machine, and
// uses the spare heap of the process.
func BenchmarkAccess_AtRate(b *testing.B) {
	headroom := make([]byte, 24<<20)
	defer runtime.KeepAlive(headroom)
	s := setup(b)
	reads, intake, seconds, accounts := number("PAWL_READS", 1000), number("PAWL_INTAKE", 0), number("PAWL_SECONDS", 3), number("PAWL_ACCOUNTS", 2000)
	s.exec(fmt.Sprintf(`insert into accounts (mode, id, provider, target_version, target_state, target_plan, target_quantity) select 'live', 'a' || n, 'stripe', 1, 'active', 'pro', 3 from generate_series(0, %d) n`, accounts),
		fmt.Sprintf(`insert into grants (mode, object, account, plan, quantity, ends, because) select 'live', 'sub' || n, 'a' || n, 'pro', 3, now() + interval '30 days', 'evt' || n from generate_series(0, %d) n`, accounts), `analyze accounts, grants`)
	made := want[decide.Answer](b, s.ask(http.MethodPost, "/tokens/{id}/new", "shop", "", "admin", `{"reason":"x","role":"viewer","expires":"1d","networks":"all"}`), http.StatusOK)
	token := "Bearer " + made.Result.(map[string]any)["token"].(string)
	receipts := receipt.NewStore(s.db, receipt.Options{})
	defer receipts.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	var mu sync.Mutex
	var took []time.Duration
	read := func(rng *rand.Zipf, due time.Time) {
		r, _ := http.NewRequestWithContext(b.Context(), http.MethodGet, s.url+Prefix+"/accounts/a"+strconv.FormatUint(rng.Uint64(), 10)+"/access", nil)
		r.Header.Set("Authorization", token)
		res, err := client.Do(r)
		if err != nil || res.StatusCode != http.StatusOK {
			b.Errorf("%v, %v", res, err)
			return
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		mu.Lock()
		took = append(took, time.Since(due))
		mu.Unlock()
	}
	insert := func(_ *rand.Zipf, due time.Time) {
		id := fmt.Sprintf("evt_%d_%d", due.UnixNano(), rand.Int63())
		_, err := receipts.Insert(b.Context(), receipt.Delivery{Source: "s", Provider: "stripe", ReceivedAt: due, Secret: "x", Events: []receipt.New{
			{Mode: "live", EventID: id, Identity: receipt.ByID, Type: "invoice.paid", Status: receipt.Received, Body: make([]byte, 1200)},
		}})
		if err != nil {
			b.Error(err)
		}
	}
	for b.Loop() {
		var all sync.WaitGroup
		every(&all, time.Now(), reads, 2, read, uint64(accounts)) // a new process has an empty cache
		all.Wait()
		took = nil
		before, cpu, begin := s.accesses.Reads(), cpuTime(b), time.Now()
		every(&all, begin, reads, seconds, read, uint64(accounts))
		every(&all, begin, intake, seconds, insert, uint64(accounts))
		all.Wait()
		slices.Sort(took)
		b.ReportMetric(float64(len(took))/time.Since(begin).Seconds(), "reads/s")
		b.ReportMetric(float64(intake), "intake/s")
		b.ReportMetric(100-100*float64(s.accesses.Reads()-before)/float64(len(took)), "%from-memory")
		b.ReportMetric(float64((cpuTime(b)-cpu).Microseconds())/float64(len(took)), "cpu-us/read")
		b.ReportMetric(took[len(took)/2].Seconds()*1000, "p50-ms")
		b.ReportMetric(took[len(took)*99/100].Seconds()*1000, "p99-ms")
	}
}

// cpuTime returns the CPU time of this process: server and client, without Postgres.
func cpuTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// every starts work at a rate, in 64 goroutines that each record their own durations.
func every(all *sync.WaitGroup, begin time.Time, perSecond, seconds int, work func(*rand.Zipf, time.Time), most uint64) {
	const workers = 64
	for w := range workers {
		all.Go(func() {
			rng := rand.NewZipf(rand.New(rand.NewSource(int64(w))), 1.1, 10, most)
			for n := w; n < perSecond*seconds; n += workers {
				due := begin.Add(time.Duration(n) * time.Second / time.Duration(perSecond))
				<-time.After(time.Until(due))
				work(rng, due)
			}
		})
	}
}

// The benchmark reads from memory, without the network: it checks a token, and returns the response and its hash.
func BenchmarkAccess_FromMemory(b *testing.B) {
	s := setup(b)
	s.exec(world...)
	r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, Prefix+"/accounts/acme/access?mode=live", nil)
	r.Header.Set("Role", "viewer")
	b.ReportAllocs()
	for b.Loop() {
		rec := httptest.NewRecorder()
		if s.handler.ServeHTTP(rec, r); rec.Code != http.StatusOK {
			b.Fatal(rec.Code)
		}
	}
}
