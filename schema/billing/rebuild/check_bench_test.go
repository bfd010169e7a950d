package rebuild_test

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/rebuild"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

// monthsOf returns the facts of some months of one account: a subscription that was upgraded once; invoices that were
// each open, paid and linked to their charge; one failed payment, one partial refund and one notice. A year has 53
// facts. Each ID contains the word ACCOUNT.
func monthsOf(months int) []fact.Fact {
	sub := of("sub_ACCOUNT", "acct_ACCOUNT", "cus_ACCOUNT")
	facts := []fact.Fact{created(0, "active", "starter", sub), updated(200*aDay, "active", "pro", sub)}
	for n := range months {
		at, id := n*month+hour, "in_"+strconv.Itoa(n)+"_ACCOUNT"
		about := func(f *fact.Fact) {
			f.Customer, f.Object = "cus_ACCOUNT", id
			f.Invoice.Subscription, f.Invoice.Account, f.Invoice.Lines[0].Subscription = "sub_ACCOUNT", "acct_ACCOUNT", "sub_ACCOUNT"
		}
		charged := charge(at, 0)
		charged.Customer, charged.Object, charged.Payment.Charge, charged.Payment.Invoice = "cus_ACCOUNT", "ch_"+strconv.Itoa(n)+"_ACCOUNT", "ch_"+strconv.Itoa(n)+"_ACCOUNT", ""
		tied := tie(at, id)
		tied.Object = charged.Object
		facts = append(facts, invoice(n+1, at-1, "open", "starter", about), paid(n+1, at, "starter", about), charged, tied)
	}
	facts = append(facts, failed(1, hour-1, 1, "starter", func(f *fact.Fact) {
		f.Customer, f.Object = "cus_ACCOUNT", "in_0_ACCOUNT"
		f.Invoice.Subscription, f.Invoice.Account, f.Invoice.Lines[0].Subscription = "sub_ACCOUNT", "acct_ACCOUNT", "sub_ACCOUNT"
	}))
	repaid := refunded("re_ACCOUNT", 2*hour, "succeeded", 10)
	repaid.Refund.Charge = "ch_0_ACCOUNT"
	facts = events(append(facts, repaid, seen(13*month, fact.RankNotice, "active", "pro", sub)), false)
	for i := range facts {
		facts[i].EventID += "_ACCOUNT"
	}
	return facts
}

// multiply copies the existing account the given number of times, by copying the rows of each table.
func multiply(b *testing.B, pool *pgxpool.Pool, accounts int) {
	b.Helper()
	conn := own(b, pool)
	defer func() { _ = conn.Close(context.WithoutCancel(b.Context())) }()
	tables := strings.Fields(`facts accounts subscriptions invoices objects grants due`)
	for _, table := range tables {
		rows, err := conn.Query(b.Context(), `select string_agg(quote_ident(column_name), ', ' order by ordinal_position) from information_schema.columns
			where table_schema = current_schema() and table_name = $1 and is_identity = 'NO' and is_generated = 'NEVER'`, table)
		if err != nil {
			b.Fatal(err)
		}
		columns, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[string])
		if err != nil {
			b.Fatal(err)
		}
		if _, err := conn.Exec(b.Context(), `insert into `+table+` (`+columns+`) select `+columns+` from (select made.* from `+table+` t
			cross join generate_series(2, $1::int) n cross join jsonb_populate_record(null::`+table+`, replace(to_jsonb(t)::text, 'ACCOUNT', n::text)::jsonb) made) rows`, accounts); err != nil {
			b.Fatalf("%s: %v", table, err)
		}
	}
	settle(b, conn)
}

// settle makes Postgres finish its background work before the measurement.
func settle(b *testing.B, conn *pgx.Conn) {
	b.Helper()
	for _, statement := range []string{`vacuum analyze`, `checkpoint`} {
		if _, err := conn.Exec(b.Context(), statement); err != nil {
			b.Fatal(err)
		}
	}
}

// own returns a connection without timeouts for statements and locks.
func own(b *testing.B, pool *pgxpool.Pool) *pgx.Conn {
	b.Helper()
	conn, err := pgx.ConnectConfig(b.Context(), pool.Config().ConnConfig)
	if err == nil {
		_, err = conn.Exec(b.Context(), `set statement_timeout = 0; set lock_timeout = 0`)
	}
	if err != nil {
		b.Fatal(err)
	}
	return conn
}

// accountsOf returns a database with about the given number of facts, of accounts that are some months old. It also
// returns the facts of one account, and the number of rows that were read to apply them.
func accountsOf(b *testing.B, facts, months int) (pool *pgxpool.Pool, one []fact.Fact, rows int) {
	b.Helper()
	pool, one = schematest.New(b), monthsOf(months)
	for _, f := range one {
		if err := pgx.BeginFunc(b.Context(), pool, func(tx pgx.Tx) error {
			change, err := billing.Apply(b.Context(), tx, []fact.Fact{f}, policy, "apply", at(14*month))
			rows += change.Rows
			return err
		}); err != nil {
			b.Fatal(err)
		}
	}
	multiply(b, pool, facts/len(one))
	return pool, one, rows
}

// BenchmarkCheckRules compares two versions of the rules that differ in one price, which one account in a hundred
// has. PAWL_ACCOUNTS is the number of accounts; each is one month old.
func BenchmarkCheckRules(b *testing.B) {
	accounts, err := strconv.Atoi(cmp.Or(os.Getenv("PAWL_ACCOUNTS"), "1000"))
	if err != nil {
		b.Fatal(err)
	}
	pool := rarelyPriced(b, accounts)
	for b.Loop() {
		checkRare(b, pool, accounts)
	}
	b.ReportMetric(float64(accounts), "accounts")
	b.ReportMetric(float64(accounts*len(monthsOf(1))), "facts")
}

// rarelyPriced returns a database of accounts that are one month old. One account in a hundred has a separate price.
// It creates the database, unless PAWL_RARELY_PRICED contains the URL of an existing one.
func rarelyPriced(b *testing.B, accounts int) *pgxpool.Pool {
	b.Helper()
	if there := os.Getenv("PAWL_RARELY_PRICED"); there != "" {
		pool, err := pgxpool.New(b.Context(), there)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(pool.Close)
		return pool
	}
	pool, _, _ := accountsOf(b, accounts*len(monthsOf(1)), 1)
	conn := own(b, pool)
	defer func() { _ = conn.Close(context.WithoutCancel(b.Context())) }()
	if _, err := conn.Exec(b.Context(), `update facts set data = replace(data::text, 'price_pro', 'price_rare')::jsonb
		where object ~ '[0-9]00$' and data::text like '%price_pro%'`); err != nil {
		b.Fatal(err)
	}
	settle(b, conn)
	return pool
}

// checkRare compares two mappings of this price.
func checkRare(b *testing.B, pool *pgxpool.Pool, accounts int) {
	b.Helper()
	conn := own(b, pool)
	defer func() { _ = conn.Close(context.WithoutCancel(b.Context())) }()
	from := mapped("price_rare", fact.Price{Plan: "pro"})
	to := mapped("price_rare", fact.Price{Plan: "enterprise"})
	found, err := rebuild.Check(b.Context(), conn, rebuild.Request{Rules: to, From: &from, At: at(14 * month)}, nil)
	if hits := found.Impacts; err != nil || len(hits) != accounts/100 {
		b.Fatalf("%d accounts are hit, want %d; %v: %.3v", len(hits), accounts/100, err, found.Rows)
	}
}

// BenchmarkCheckRules_BesideIntake measures how a comparison slows down deliveries: it commits receipts at half of
// the database's maximum rate, first alone for the duration of the comparison, and then during the comparison. The
// results are medians of several runs; -benchtime sets the number of runs.
func BenchmarkCheckRules_BesideIntake(b *testing.B) {
	accounts, err := strconv.Atoi(cmp.Or(os.Getenv("PAWL_ACCOUNTS"), "1000"))
	if err != nil {
		b.Fatal(err)
	}
	pool := rarelyPriced(b, accounts)
	store := receipt.NewStore(pool, receipt.Options{})
	defer store.Close()
	intake{b, store}.full(5 * time.Second) // make Postgres create its first WAL segments
	full := intake{b, store}.full(5 * time.Second)
	lasts := checkElsewhere(b, pool)
	var alone, beside, ratios []float64
	for b.Loop() {
		alone = append(alone, intake{b, store}.p99(full/2, time.After(lasts)).Seconds()*1000)
		over := make(chan time.Time)
		go func() {
			defer close(over)
			checkElsewhere(b, pool)
		}()
		beside = append(beside, intake{b, store}.p99(full/2, over).Seconds()*1000)
		ratios = append(ratios, beside[len(beside)-1]/alone[len(alone)-1])
	}
	for unit, figures := range map[string][]float64{
		"p99-ms-alone": alone, "p99-ms-beside": beside, "beside/alone": ratios,
	} {
		slices.Sort(figures)
		b.ReportMetric(figures[len(figures)/2], unit)
	}
	b.ReportMetric(full, "receipts/s-full")
	b.ReportMetric(lasts.Seconds(), "s-alone")
}

// checkElsewhere runs checkRare in a separate process, as a command runs in a process of its own.
func checkElsewhere(b *testing.B, pool *pgxpool.Pool) (lasts time.Duration) {
	begin := time.Now()
	command := exec.CommandContext(b.Context(), os.Args[0], "-test.run=^$", "-test.bench=^BenchmarkCheckRules$",
		"-test.benchtime=1x")
	command.Env = append(os.Environ(), "PAWL_RARELY_PRICED="+pool.Config().ConnString())
	if out, err := command.CombinedOutput(); err != nil {
		b.Errorf("%v: %s", err, out)
	}
	if used, ok := command.ProcessState.SysUsage().(*syscall.Rusage); ok {
		b.ReportMetric(float64(used.Maxrss)/1024, "MB-of-memory")
	}
	return time.Since(begin)
}

// intake commits receipts.
type intake struct {
	*testing.B
	store *receipt.Store
}

func (i intake) insert() time.Duration {
	begin := time.Now()
	_, err := i.store.Insert(i.Context(), receipt.Delivery{Source: "stripe", Provider: "stripe", ReceivedAt: begin, Secret: "bench",
		Events: []receipt.New{{Mode: "live", EventID: "evt_" + uuid.NewString(), Identity: receipt.ByID, Type: "invoice.paid",
			Status: receipt.Received, Body: make([]byte, 1200)}}})
	if err != nil {
		i.Error(err)
	}
	return time.Since(begin)
}

// full returns how many receipts 64 callers commit per second.
func (i intake) full(lasts time.Duration) float64 {
	var calls sync.WaitGroup
	var done atomic.Int64
	begin := time.Now()
	for range 64 {
		calls.Go(func() {
			for time.Since(begin) < lasts {
				i.insert()
				done.Add(1)
			}
		})
	}
	calls.Wait()
	return float64(done.Load()) / time.Since(begin).Seconds()
}

// p99 commits receipts at a rate until over is closed, and returns the 99th percentile of their durations.
func (i intake) p99(rate float64, over <-chan time.Time) time.Duration {
	var calls sync.WaitGroup
	var mu sync.Mutex
	var took []time.Duration
	tick := time.NewTicker(time.Duration(float64(time.Second) / rate))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			calls.Go(func() {
				d := i.insert()
				mu.Lock()
				defer mu.Unlock()
				took = append(took, d)
			})
			continue
		case <-over:
		}
		break
	}
	calls.Wait()
	slices.Sort(took)
	return took[len(took)*99/100]
}

// BenchmarkCheck recomputes all objects. PAWL_FACTS is the approximate number of facts.
func BenchmarkCheck(b *testing.B) {
	facts, err := strconv.Atoi(cmp.Or(os.Getenv("PAWL_FACTS"), "5000"))
	if err != nil {
		b.Fatal(err)
	}
	pool, one, rows := accountsOf(b, facts, 12)
	now := at(14 * month)
	for b.Loop() {
		conn := own(b, pool)
		begin := time.Now()
		found, err := rebuild.Check(b.Context(), conn, rebuild.Request{Rules: policy, At: now}, nil)
		if err != nil || len(found.Rows) > 0 {
			b.Fatalf("%d differences, %v: %.3v", len(found.Rows), err, found.Rows)
		}
		count := float64(facts / len(one) * len(one))
		b.ReportMetric(count/time.Since(begin).Seconds(), "facts/s")
		b.ReportMetric(count, "facts")
		b.ReportMetric(float64(rows)/float64(len(one)), "rows/apply")
		_ = conn.Close(context.WithoutCancel(b.Context()))
	}
}
