package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
)

// quietly is a failure that causes no event, or only an event that no operator would notice.
type quietly struct {
	name string
	// plant causes the failure. told lists the expected reports: channel, name, severity and runbook.
	plant func()
	told  []told
	// news is the kind of the ticket that the repair opens once; "" means no ticket.
	news string
	// wait is SQL that moves stored times into the past, for delays that the binary does not let a test configure. It
	// runs after Prometheus has fired.
	wait string
	// mend executes the commands of the runbook.
	mend func()
}

// In the short form of the test, a minute replaces an hour. With PAWL_ALARM_SCALE=1 all times have their real length.
const alarmScale = 60

// The test causes eleven failures that stop nothing. Each is reported once, with the right severity and a runbook
// whose commands resolve it, and is reported as resolved afterwards. Both channels are tested: the alerts that
// Prometheus sends, and `notify`. Healthy traffic before and after causes no report.
func TestAlarms_QuietFailures_ToldOnceAndToldToBeOver(t *testing.T) {
	for _, program := range []string{"prometheus", "promtool"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not here: on Debian, `.ci/run packages` brings it", program)
		}
	}
	scale, every := alarmScale, time.Second
	if given := os.Getenv("PAWL_ALARM_SCALE"); given != "" {
		var err error
		if scale, err = strconv.Atoi(given); err != nil || scale < 1 {
			t.Fatalf("PAWL_ALARM_SCALE=%s", given)
		}
	}
	if scale == 1 {
		every = 15 * time.Second
	}
	a := newAlarmed(t, scale, every)
	bought := a.storm(25)
	a.tellsNothing("the storm before")
	table := a.drill(append(a.quiet(bought), a.hanging())...)
	table = append(table, a.drill(a.idle())...)
	a.storm(25)
	a.tellsNothing("the storm after")
	t.Logf("reports, scale %d:\n| failure | by | reported as | severity | reported after | runbook | resolved after |\n|---|---|---|---|---|---|---|\n%s", scale, strings.Join(table, ""))
}

// within returns the timeout for a report that is due after d, by an alert or by notify.
func (a *alarmed) within(d time.Duration) time.Duration {
	return d/time.Duration(a.scale) + time.Minute
}

// tellsNothing waits for one more pass of notify and for the rules with a range of ten minutes, and checks that
// nothing was reported.
func (a *alarmed) tellsNothing(when string) {
	a.t.Helper()
	before, _ := a.now()
	// Notify deletes a notice that is resolved before it was sent.
	if _, err := a.pool.Exec(a.t.Context(), `insert into notices (cause, body, since, seen_at, told_severity, told_count)
		values ('parked:marker', '{"name":"parked:marker"}', now(), now() - interval '10 minutes', '', 0)`); err != nil {
		a.t.Fatal(err)
	}
	await(a.t, patience, func() error {
		if a.count(`select count(*) from notices where cause = 'parked:marker'`) > 0 {
			return errors.New("notify has not looked")
		}
		return nil
	})
	enough := time.Now().Add(max(10*time.Minute/time.Duration(a.scale), shortest))
	await(a.t, a.within(20*time.Minute), func() error {
		if at := a.evaluated(); at.Before(enough) {
			return fmt.Errorf("the rules were evaluated at %s, and not at %s", at, enough)
		}
		return nil
	})
	all, wrong := a.now()
	for _, o := range all[len(before):] {
		a.t.Errorf("%s: people received %s", when, o)
	}
	if len(wrong) > 0 {
		a.t.Errorf("%s: %s", when, wrong)
	}
}

// drill causes failures, waits for their reports, executes their runbooks, and waits for the reports of their end. It
// returns the rows of the table in the benchmark document.
func (a *alarmed) drill(failures ...quietly) (rows []string) {
	a.t.Helper()
	before, _ := a.now()
	planted, begun, mended := map[string]time.Time{}, map[string]time.Time{}, map[string]time.Time{}
	for _, f := range failures {
		planted[f.name] = time.Now()
		f.plant()
	}
	for _, f := range failures {
		slices.SortStableFunc(f.told, func(x, y told) int { return strings.Compare(x.By, y.By) })
		for _, want := range f.told {
			if want.By == byNotify && f.wait != "" {
				a.later(f.wait)
			}
			await(a.t, a.within(3*time.Hour), func() error {
				if len(a.find(want)) == 0 {
					return fmt.Errorf("%s: no report of %s %s", f.name, want.By, want.Name)
				}
				return nil
			})
		}
	}
	last := len(failures) - 1
	// start with the last failure, because it delays the runbooks of the others
	for _, f := range slices.Concat(failures[last:], failures[:last]) {
		begun[f.name] = time.Now()
		f.mend()
		mended[f.name] = time.Now()
	}
	var expected []told
	for _, f := range failures {
		for _, want := range f.told {
			expected = append(expected, want)
			await(a.t, a.within(4*time.Hour), func() error {
				found := a.find(want)
				if found[0].Over.IsZero() {
					// A pass that still finds a condition sets seen_at again.
					a.later(`update notices set seen_at = now() - interval '5 minutes' where seen_at > now() - interval '1 minute'`)
					return fmt.Errorf("%s: no report of the end of %s %s", f.name, want.By, want.Name)
				}
				return nil
			})
			got := a.find(want)[0]
			if got.Times != 1 || got.Severity != want.Severity || got.Runbook != want.Runbook || got.Over.Before(begun[f.name]) {
				a.t.Errorf("%s: people received %s, resolved at %s; want %s as %s, once, with %s, and resolved after %s",
					f.name, got, got.Over, want.Name, want.Severity, want.Runbook, begun[f.name])
			}
			rows = append(rows, fmt.Sprintf("| %s | %s | `%s` | %s | %.0f s | %s | %.0f s |\n", f.name, want.By, got.Name, got.Severity,
				got.Began.Sub(planted[f.name]).Seconds(), got.Runbook, max(got.Over.Sub(mended[f.name]).Seconds(), 0)))
		}
	}
	all, _ := a.now()
	for i, o := range all[len(before):] {
		if !slices.ContainsFunc(expected, func(want told) bool {
			return slices.ContainsFunc(a.find(want)[:1], func(first told) bool { return first == o })
		}) && !slices.ContainsFunc(failures, func(f quietly) bool {
			return f.news != "" && o.By == byNotify && strings.HasPrefix(o.Name, f.news) && o.Severity == "ticket" && o.Times == 1
		}) {
			a.t.Errorf("other reports (%d): %s", i, o)
		}
	}
	return rows
}

// status waits until an event has a status.
func (a *alarmed) status(e invoice, status string) {
	a.t.Helper()
	a.awaitStatus(patience, []invoice{e}, status)
}

// quiet returns the failures that do not stop any other function.
func (a *alarmed) quiet(bought []string) []quietly {
	var dead, mail, dispute invoice
	var others []invoice
	why := ""
	return []quietly{
		{
			name: "an endpoint is switched off at Stripe",
			plant: func() {
				a.event("lost at stripe", "invoice.created", nil)
				a.endpoints("disabled")
			},
			told: []told{{By: byAlert, Name: "PawlEndpointOff", Severity: "page", Runbook: "endpoint"},
				{By: byNotify, Name: "endpoint:stripe:off", Severity: "page", Runbook: "endpoint"}},
			mend: func() {
				const runbook = "endpoint"
				a.book(runbook, "pawl doctor")
				a.endpoints("enabled") // as a person does in Stripe's dashboard
				a.book(runbook, `pawl events backfill stripe --from 2026-11-20T08:00:00Z --to 2026-11-24T09:30:00Z --yes --reason "Stripe had switched the endpoint off"`,
					"2026-11-20T08:00:00Z", time.Now().Add(-4*time.Hour).UTC().Format(time.RFC3339), "2026-11-24T09:30:00Z", time.Now().Add(time.Minute).UTC().Format(time.RFC3339))
				if said := a.book(runbook, "pawl doctor"); !regexp.MustCompile(`(?m)^ok +endpoint +stripe`).MatchString(said) {
					a.t.Errorf("doctor does not report the endpoint as enabled:\n%s", said)
				}
			},
		},
		{
			name: "a source falls silent",
			plant: func() {
				for _, sql := range []string{
					`insert into source_hours select 'quiet', date_trunc('hour', now()) - n * interval '1 hour', 20 from generate_series(3, 28 * 24) n`,
					`insert into source_counts select 'quiet', 'admitted', 'secret-1', now(), 1, max(hour) from source_hours where source = 'quiet'`,
				} {
					if _, err := a.pool.Exec(a.t.Context(), sql); err != nil {
						a.t.Fatal(err)
					}
				}
			},
			told: []told{{By: byAlert, Name: "PawlSourceSilent", Severity: "page", Runbook: "missing-events"},
				{By: byNotify, Name: "silent:quiet", Severity: "page", Runbook: "missing-events"}},
			mend: func() {
				a.book("missing-events", `pawl events backfill stripe --from 3d --yes --reason "the firewall was shut on Friday"`, "stripe", "quiet")
				_, events := a.purchase()
				a.deliver(a.silent, events...) // the firewall lets the deliveries pass again
				if said := a.book("missing-events", "pawl events backfill stripe --from 3d", "stripe", "quiet"); !strings.HasPrefix(said, "no gap") {
					a.t.Errorf("there is a gap:\n%s", said)
				}
			},
		},
		{
			name: "one financial dead letter",
			plant: func() {
				_, events := a.purchase()
				a.deliver(a.in, events[0])
				a.status(events[0], processed)
				a.fault(`{"service":"finance","status":404}`)
				dead = events[1]
				a.deliver(a.in, dead)
				a.status(dead, "dead")
				a.deliver(a.in, events[2:]...)
			},
			told: []told{{By: byAlert, Name: "PawlRunsDead", Severity: "page", Runbook: "parked-event"},
				{By: byNotify, Name: "parked:live:dead:financial:effect_failed", Severity: "page", Runbook: "parked-event"}},
			mend: func() {
				a.book("parked-event", `pawl events retry evt_123 --reason "finance is back"`, "evt_123", dead.ID)
				a.status(dead, processed)
			},
		},
		{
			name: "ten other dead letters",
			plant: func() {
				a.fault(`{"service":"workspaces","status":404,"next":10}`)
				for range 10 {
					a.bought++
					others = append(others, a.event(fmt.Sprintf("purchase %d", a.bought), "customer.subscription.created", nil))
				}
				a.deliverAll(a.in, others)
				a.awaitStatus(patience, others, "dead")
			},
			told: []told{{By: byAlert, Name: "PawlRunsDeadOther", Severity: "ticket", Runbook: "parked-event"},
				{By: byAlert, Name: "PawlRunsDeadMany", Severity: "incident", Runbook: "bulk-decisions"},
				{By: byNotify, Name: "parked:live:dead:other:effect_failed", Severity: "page", Runbook: "bulk-decisions"}},
			mend: func() {
				a.types = "10\n"
				a.book("bulk-decisions", `pawl events retry --status dead --reason-code effect_failed --since 2h --reason "finance is fixed"`)
				a.awaitStatus(patience, others, processed)
			},
		},
		{
			name: "a dispute is due in three days",
			plant: func() {
				dispute = a.event(bought[0], "charge.dispute.created", func(p *forge.Params) { p.At = time.Now().Add(20 * time.Second) })
				a.deliver(a.in, dispute)
				a.status(dispute, processed)
			},
			told: []told{{By: byAlert, Name: "PawlEvidenceDue", Severity: "ticket", Runbook: "tasks"},
				{By: byNotify, Name: "task:live:dispute", Severity: "ticket", Runbook: "tasks"}},
			mend: func() {
				a.book("tasks", "pawl tasks list --kind dispute --mode live")
				handed := a.event(bought[0], "charge.dispute.updated", func(p *forge.Params) { p.At = time.Now().Add(30 * time.Second) })
				a.deliver(a.in, handed) // as after a person has submitted the evidence at Stripe
				a.status(handed, processed)
			},
		},
		{
			name: "a price is mapped to no plan",
			plant: func() {
				a.bought++
				e := a.event(fmt.Sprintf("purchase %d", a.bought), "customer.subscription.created", func(p *forge.Params) { p.Price, p.Plan = "price_new", "mystery" })
				a.deliver(a.in, e)
				a.status(e, processed)
			},
			told: []told{{By: byAlert, Name: "PawlPriceUnknown", Severity: "page", Runbook: "unmapped-price"},
				{By: byNotify, Name: "task:live:unknown_price", Severity: "page", Runbook: "unmapped-price"}},
			news: "rules:changed:",
			mend: func() {
				a.prices += ", price_new: enterprise"
				a.configure()
				a.book("unmapped-price", "pawl rules diff")
			},
		},
		{
			name: "a mail is uncertain",
			plant: func() {
				_, events := a.purchase()
				a.deliver(a.in, events[0])
				a.status(events[0], processed)
				a.fault(`{"service":"email","next":1,"mode":"drop_after_accept"}`)
				mail = events[1]
				a.deliver(a.in, mail)
				a.status(mail, "needs_review")
				a.deliver(a.in, events[2:]...)
			},
			wait: `update effects set lease_until = lease_until - interval '1 hour' where state = 'uncertain'`,
			told: []told{{By: byAlert, Name: "PawlEffectsUncertain", Severity: "ticket", Runbook: "uncertain-email"},
				{By: byNotify, Name: "uncertain:live:receipt-email", Severity: "ticket", Runbook: "uncertain-email"}},
			mend: func() {
				a.book("uncertain-email", `pawl events mark-done evt_123 --effect receipt-email --reference "relay log, 17:03" --reason "the relay's log has it"`, "evt_123", mail.ID)
				a.status(mail, processed)
			},
		},
		{
			name: "a row of the audit trail is edited",
			plant: func() {
				a.do(nil, "sinks", "pause", "finance", "--reason", "alarm")
				a.do(nil, "sinks", "resume", "finance", "--reason", "alarm")
				why = a.rows(`select reason from operator_actions order by id limit 1`)[0]["reason"].(string)
				a.edit(why + ".")
			},
			told: []told{{By: byAlert, Name: "PawlAuditBroken", Severity: "page", Runbook: "audit-trail"},
				{By: byNotify, Name: "audit:broken", Severity: "page", Runbook: "audit-trail"}},
			mend: func() {
				if said := a.book("audit-trail", "pawl audit verify"); !strings.Contains(said, "broken") {
					a.t.Errorf("audit verify prints\n%s", said)
				}
				a.edit(why) // restore the value from the backup
				if said := a.book("audit-trail", "pawl audit verify"); !strings.Contains(said, "unbroken") {
					a.t.Errorf("audit verify prints\n%s", said)
				}
			},
		},
		{
			// the new process also checks the audit trail, and repeats this check every ten minutes
			name: "a secret is about to end",
			plant: func() {
				a.ends = time.Now().Add(13*24*time.Hour + 23*time.Hour)
				a.deploy()
			},
			told: []told{{By: byAlert, Name: "PawlSecretEnds", Severity: "ticket", Runbook: "rotate-secret"},
				{By: byNotify, Name: "secret:stripe", Severity: "ticket", Runbook: "rotate-secret"}},
			mend: func() {
				a.next = true
				a.deploy()
				a.book("rotate-secret", "pawl config check")
				a.book("rotate-secret", "pawl sources --unused-for 168h")
				if said := a.book("unmapped-price", "pawl rules diff"); !strings.Contains(said, "is active already") {
					a.t.Errorf("the mapping is not active:\n%s", said)
				}
			},
		},
	}
}

// edit changes a row of the audit trail directly in the database.
func (a *alarmed) edit(reason string) {
	a.t.Helper()
	if _, err := a.pool.Exec(a.t.Context(), `update operator_actions set reason = $1 where id = (select min(id) from operator_actions)`, reason); err != nil {
		a.t.Fatal(err)
	}
}

// hanging is a sink that accepts requests and never responds.
func (a *alarmed) hanging() quietly {
	var waiting []invoice
	return quietly{
		name: "a sink hangs",
		plant: func() {
			a.fault(`{"service":"finance","mode":"hang_after_accept","next":100000}`)
			for range 6 {
				_, events := a.purchase()
				a.deliver(a.in, events...)
				waiting = append(waiting, events...)
			}
		},
		wait: `update breakers set since = since - interval '2 minutes' where sink = 'finance'`,
		told: []told{{By: byAlert, Name: "PawlSinkDown", Severity: "page", Runbook: "sink-down"},
			{By: byNotify, Name: "sink:finance", Severity: "page", Runbook: "sink-down"}},
		mend: func() {
			if said := a.book("sink-down", "pawl events list --reason-code sink_down"); !strings.Contains(said, "evt_") {
				a.t.Errorf("no event waits for the sink:\n%s", said)
			}
			a.clearFaults() // the sink responds again
			a.awaitStatus(patience, waiting, processed)
			a.book("sink-down", "pawl sinks")
		},
	}
}

// idle is a worker whose polls Temporal rejects.
func (a *alarmed) idle() quietly {
	var waiting []invoice
	of := quietly{
		name: "a worker has no pollers",
		plant: func() {
			a.front.refusePolls()
			_, waiting = a.purchase()
			a.deliver(a.in, waiting...)
		},
		wait: `update receipts set received_at = received_at - interval '3 minutes' where status in ('received', 'processing')`,
		told: []told{{By: byAlert, Name: "PawlNobodyWorks", Severity: "page", Runbook: "no-worker"},
			{By: byNotify, Name: "no-worker:", Severity: "page", Runbook: "no-worker"}},
		mend: func() {
			a.book("no-worker", "pawl doctor")
			a.front.let(nil)
			a.awaitStatus(patience, waiting, processed)
			a.book("no-worker", "pawl doctor")
		},
	}
	if a.scale > 1 { // pawl reports a worker 90 s after its last poll, whatever the scale is
		of.told = of.told[:1]
	}
	return of
}
