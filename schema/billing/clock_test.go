package billing_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/schematest"
)

// clock is an account with a clock that the test sets.
type clock struct {
	*testing.T
	tx     ledger.Tx
	n      int
	policy fact.Policy
}

// passing calls f with a clock on an empty database, and rolls back.
func passing(t *testing.T, f func(c *clock)) {
	t.Helper()
	t.Parallel()
	pool := schematest.New(t)
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		f(&clock{T: t, tx: tx, policy: policy})
		return errUndo
	})
	if !errors.Is(err, errUndo) {
		t.Fatal(err)
	}
}

// told applies facts at a second, and returns the due actions that the last fact caused.
func (c *clock) told(second int, facts ...fact.Fact) (due []string) {
	c.Helper()
	for _, f := range facts {
		c.n++
		f = events([]fact.Fact{f}, false)[0]
		f.EventID, f.ReceiptID = fmt.Sprint("evt_", c.n), fmt.Sprintf("00000000-0000-7000-8000-%012d", c.n)
		change, err := billing.Apply(c.Context(), c.tx, []fact.Fact{f}, c.policy, "apply:"+f.EventID, at(second))
		if err != nil {
			c.Fatal(err)
		}
		due = wordsOf(change)
	}
	return due
}

// comes runs the scheduled actions that are due at a second, and returns them.
func (c *clock) comes(second int) (due []string) {
	c.Helper()
	subject := fact.Subject{Provider: "stripe", Mode: "live", EventID: "evt_1", ReceiptID: "00000000-0000-7000-8000-000000000001"}
	if second < 0 {
		c.Fatalf("second %d", second)
	}
	change, err := billing.ApplyDue(c.Context(), c.tx, subject, "acme", at(second), c.policy, fmt.Sprint("apply-due:", second))
	if err != nil {
		c.Fatal(err)
	}
	return wordsOf(change)
}

// wordsOf describes the due actions with their event, and the access of the account after them.
func wordsOf(change fold.Change) (due []string) {
	for _, d := range change.Due {
		if d.Kind == fold.DueRenewal || d.Kind == fold.DueAddOn { // these kinds have their own tests
			continue
		}
		due = append(due, words(string(d.Kind), d.Object, when(d.Step > 0, fmt.Sprint(d.Step)), "by", d.Cause.EventID))
	}
	return append(due, describeAccess(change.After.Access))
}

func (c *clock) want(when string, got []string, want ...string) {
	c.Helper()
	if !slices.Equal(got, want) {
		c.Errorf("%s\n got %q\nwant %q", when, got, want)
	}
}

func (c *clock) announced() (types []string) {
	c.Helper()
	found, err := c.tx.Query(c.Context(), `select type from outbox order by id`)
	if err == nil {
		types, err = pgx.CollectRows(found, pgx.RowTo[string])
	}
	if err != nil {
		c.Fatal(err)
	}
	return types
}

const (
	proActive = "acme: active pro 1 api,projects"
)

func TestApplyDue_Case13_GraceEnds_ThenPaid(t *testing.T) {
	passing(t, func(c *clock) {
		c.told(0, created(0, "active", "pro"))
		c.want("past due", c.told(10, updated(10, "past_due", "pro")), proActive)
		c.want("failed", c.told(10, failed(1, 10, 1, "pro")), proActive)
		c.want("due", dueRows(c.T, c.tx), "dunning in_1 2 at 72h0m10s", "dunning in_1 3 at 168h0m10s", "dunning in_1 4 at 336h0m10s", "grace sub_1 at 504h0m10s")
		// By the database's time all actions are overdue. Of three reminders only the newest is sent, and it belongs
		// to the event of the invoice.
		c.want("the clock comes", c.comes(0), "dunning in_1 4 by evt_3", "grace sub_1 by evt_2", "keep acme by evt_2", "acme: suspended")
		c.want("it came before", c.comes(0), "acme: suspended")
		c.want("due", dueRows(c.T, c.tx))
		c.want("paid", c.told(years(0), paid(1, 22*aDay, "pro"), updated(22*aDay, "active", "pro")), proActive)
		c.want("due", dueRows(c.T, c.tx))
		if got := c.announced(); !slices.Equal(got, []string{"billing.subscription.changed", "access.changed", "billing.payment.failed", "access.changed", "billing.invoice.paid", "access.changed"}) {
			c.Errorf("announced %q", got)
		}
	})
}

// A year has replaced a month, and was refunded. No event reports the end of the month that remains. The change by
// the scheduled action contains the subscription, because the e-mail needs it.
func TestApplyDue_YearRefunded_EndOfTheMonth(t *testing.T) {
	passing(t, func(c *clock) {
		c.policy.EndOnFullRefund = true
		c.told(12*aDay, created(0, "active", "pro"), paid(1, 1, "pro"), updated(10*aDay, "active", "pro", with(periods(12))),
			upgrade(2, 10*aDay, "paid", "pro", func(f *fact.Fact) { f.Invoice.Lines[0].PeriodEnd = at(360 * aDay) }),
			changed(charge(11*aDay, 1000), chargeOf(2)))
		c.want("the month is over", c.comes(0), "end sub_1 by evt_3", "keep acme by evt_3", "acme: suspended")
	})
}

func TestApplyDue_Case30_PlannedEnd(t *testing.T) {
	passing(t, func(c *clock) {
		end := years(aDay)
		c.want("planned", c.told(50, updated(50, "active", "pro", with(func(s *fact.Subscription) { s.CancelAt = at(end) }))), proActive)
		c.want("before it", c.comes(end-1), proActive)
		c.want("at it", c.comes(end), "acme: suspended")
		c.want("due", dueRows(c.T, c.tx), fmt.Sprintf("keep acme at %s", time.Duration(end)*time.Second+policy.Keep))
		c.want("after the keep", c.comes(end+30*aDay), "keep acme by evt_1", "acme: suspended")
		c.want("due", dueRows(c.T, c.tx))
	})
}

// The action at the end of the paid period contains the subscription that ended before, so that the customer gets an
// e-mail at that time.
func TestApplyDue_EndedBefore_AtPeriodEnd(t *testing.T) {
	passing(t, func(c *clock) {
		c.policy.EndAtPeriodEnd = true
		start := years(0)
		bills := paid(1, start, "pro", func(f *fact.Fact) {
			f.Invoice.Lines[0].PeriodStart, f.Invoice.Lines[0].PeriodEnd = at(start), at(start+month)
		})
		c.told(start+5*aDay, updated(start, "active", "pro"), bills, deleted(start+5*aDay, "pro"))
		c.want("before it", c.comes(start+month-1), proActive)
		c.want("at it", c.comes(start+month), "end sub_1 by evt_3", "acme: suspended")
	})
}

// A planned end that was cancelled is no longer due, and the grant of another subscription stays.
func TestApplyDue_PlannedEnd_TakenBack_OrNotTheLast(t *testing.T) {
	passing(t, func(c *clock) {
		end := years(aDay)
		until := with(func(s *fact.Subscription) { s.CancelAt = at(end) })
		c.told(50, updated(50, "active", "pro", until), updated(60, "active", "pro"))
		c.want("taken back", dueRows(c.T, c.tx))
		c.told(70, updated(70, "active", "pro", until), created(70, "active", "starter", of("sub_2", "acme", "cus_2")))
		c.want("one ends", c.comes(end), "acme: active starter 1 projects")
		c.want("due", dueRows(c.T, c.tx))
	})
}

// If the time of a step has passed before its fact arrives, the run of the event executes the step. Later steps
// become scheduled actions.
func TestApply_LateFailure_NewestStepAtOnce(t *testing.T) {
	passing(t, func(c *clock) {
		c.told(0, created(0, "active", "pro"))
		c.want("eight days late", c.told(8*aDay, failed(1, 10, 1, "pro")), "dunning in_1 3 by evt_2", proActive)
		c.want("due", dueRows(c.T, c.tx), "dunning in_1 4 at 336h0m10s")
		c.want("a second attempt, told in between", c.told(9*aDay, failed(1, 20, 2, "pro")), "dunning in_1 3 by evt_2", proActive)
		c.want("due", dueRows(c.T, c.tx), "dunning in_1 4 at 336h0m10s")
		c.want("paid", c.told(10*aDay, paid(1, 10*aDay, "pro")), proActive)
		c.want("due", dueRows(c.T, c.tx))
	})
}

// If another fact arrives first, an overdue row stays for the run of its scheduled action, and moves with its
// account.
func TestApply_RowWhoseTimeHasCome_Stays(t *testing.T) {
	passing(t, func(c *clock) {
		c.told(0, created(0, "active", "pro"), failed(1, 10, 1, "pro"))
		c.told(4*aDay, updated(4*aDay, "active", "enterprise", of("sub_1", "umbrella", "")))
		// and no task to release the workspace of the old account
		c.want("due", dueRows(c.T, c.tx), "dunning in_1 2 at 72h0m10s", "dunning in_1 3 at 168h0m10s", "dunning in_1 4 at 336h0m10s")
		if found, err := c.tx.Query(c.Context(), `select distinct account from due where why = 'dunning'`); err != nil {
			c.Fatal(err)
		} else if accounts, err := pgx.CollectRows(found, pgx.RowTo[string]); err != nil || !slices.Equal(accounts, []string{"umbrella"}) {
			c.Errorf("the steps are the steps of %q, %v", accounts, err)
		}
	})
}

// A workspace is kept for a period after all access has ended. The period stops if access returns.
func TestApply_Keep(t *testing.T) {
	passing(t, func(c *clock) {
		c.told(0, created(0, "active", "pro"), created(0, "active", "pro", of("sub_2", "acme", "cus_2")))
		c.told(100, deleted(100, "pro"))
		c.want("one has ended", dueRows(c.T, c.tx))
		c.told(100, deleted(50, "pro", of("sub_2", "acme", "cus_2")))
		c.want("both have, the later first", dueRows(c.T, c.tx), "keep acme at 720h1m40s")
		c.told(200, created(200, "active", "starter", of("sub_3", "acme", "")))
		c.want("it is back", dueRows(c.T, c.tx))
		if got := strings.Join(c.told(80*aDay, deleted(300, "starter", of("sub_3", "acme", ""))), ", "); got != "keep acme by evt_6, acme: suspended" {
			c.Errorf("an end that is scheduled after its time: %s", got)
		}
	})
}

// In this test, the policy ends access after a full refund. The workspace is kept for a period that begins with the
// last refund, whatever event reports it and whatever event follows. The period stops if access returns.
func TestApply_Keep_PaidBackInFull(t *testing.T) {
	passing(t, func(c *clock) {
		c.policy.EndOnFullRefund = true
		c.told(1, created(0, "active", "pro"), paid(1, 1, "pro"), charge(1, 0))
		c.want("in part", c.told(200, refunded("re_1", 150, "succeeded", 400)), proActive)
		c.want("due", dueRows(c.T, c.tx))
		c.want("in full", c.told(200, refunded("re_2", 190, "succeeded", 600)), "acme: suspended")
		c.want("due", dueRows(c.T, c.tx), "keep acme at 720h3m10s")
		c.told(500, charge(195, 1000), updated(300, "active", "pro"))
		c.want("due after what says nothing new", dueRows(c.T, c.tx), "keep acme at 720h3m10s")
		c.want("the clock comes", c.comes(0), "keep acme by evt_5", "acme: suspended")
		c.want("paid anew", c.told(40*aDay, paid(2, 40*aDay, "pro")), proActive)
		c.want("due", dueRows(c.T, c.tx))
	})
}

// Only the charge reports the refund, and the subscription has ended before.
func TestApply_Keep_PaidBack_AsTheChargeTells(t *testing.T) {
	passing(t, func(c *clock) {
		c.policy.EndOnFullRefund = true
		c.told(200, created(0, "active", "pro"), paid(1, 1, "pro"), charge(1, 0), charge(150, 1000), charge(180, 1000))
		c.want("due", dueRows(c.T, c.tx), "keep acme at 720h2m30s")
		c.told(200, deleted(160, "pro"))
		c.want("ended since", dueRows(c.T, c.tx), "keep acme at 720h2m30s")
	})
}

// In this test, the policy ends access after a lost dispute. An open dispute or a hold does not start the period,
// because a person still decides about it.
func TestApply_Keep_DisputeLost(t *testing.T) {
	passing(t, func(c *clock) {
		holds(&c.policy)
		lost(&c.policy)
		c.told(1, created(0, "active", "pro"), paid(1, 1, "pro"), charge(1, 0))
		c.want("disputed", c.told(100, disputed(90, fact.RankCreated, "needs_response")), "acme: suspended")
		c.want("due", dueRows(c.T, c.tx))
		c.told(400, disputed(300, fact.RankEnd, "lost"), disputed(330, fact.RankEnd, "lost", withdrawn))
		c.want("due once it is lost", dueRows(c.T, c.tx), "keep acme at 720h5m0s")
		c.want("won after all", c.told(500, disputed(490, fact.RankEnd, "won")), proActive)
		c.want("due", dueRows(c.T, c.tx))
		c.want("a person's hold", c.told(600, decided(fact.Held, "sub_1", 600, "", 0)), "acme: suspended")
		c.want("due", dueRows(c.T, c.tx))
	})
}

// A one-time purchase grants access until it is fully refunded, under any policy.
func TestApply_Keep_OrderPaidBack(t *testing.T) {
	passing(t, func(c *clock) {
		c.told(60, sale(20, "complete", "paid"), basil(20, 0), refunded("re_1", 50, "succeeded", 1000))
		c.want("due", dueRows(c.T, c.tx), "keep acme at 720h0m50s")
		c.want("it has failed", c.told(70, refunded("re_1", 65, "failed", 1000)), proActive)
		c.want("due", dueRows(c.T, c.tx), "one_off cs_1 at 720h0m20s")
	})
}

// A scheduled action ends a one-time purchase, whether an invoice or a session reports it.
func TestApplyDue_OneOff(t *testing.T) {
	passing(t, func(c *clock) {
		c.told(20, sale(20, "complete", "paid"), paid(1, 20, "starter", oneOff(40*day)))
		c.want("due", dueRows(c.T, c.tx), "one_off cs_1 at 720h0m20s", "one_off in_1 at 960h0m20s")
		c.want("both are over", c.comes(0), "keep acme by evt_2", "acme: suspended")
		c.want("due", dueRows(c.T, c.tx))
	})
}

// If no event reports the renewal of a subscription, a task opens, and it closes when an event arrives.
func TestApplyDue_Renewal(t *testing.T) {
	for _, c := range []struct {
		name  string
		facts []fact.Fact
		want  []string // the actions that are due after the end of the first period
	}{
		{"none has come", []fact.Fact{updated(1, "active", "pro")}, []string{"renewal sub_1 at 816h0m0s"}},
		{"on trial", []fact.Fact{updated(1, "trialing", "pro", with(func(s *fact.Subscription) { s.TrialEnd = at(40 * aDay) }))}, []string{"renewal sub_1 at 1056h0m0s"}},
		{"a snapshot of the next period", []fact.Fact{updated(1, "active", "pro"), updated(aDay, "active", "pro", with(inPeriod(2)))}, []string{"renewal sub_1 at 1536h0m0s"}},
		{"a paid invoice of the next period", []fact.Fact{updated(1, "active", "pro"), paid(2, 2, "pro")}, []string{"renewal sub_1 at 1536h0m0s"}},
		{"its end is planned", []fact.Fact{updated(1, "active", "pro", with(canceling))}, nil},
		{"past due", []fact.Fact{updated(1, "past_due", "pro")}, nil},
		{"it has ended", []fact.Fact{updated(1, "active", "pro"), deleted(2, "pro")}, nil},
		{"it buys nothing that is known", []fact.Fact{updated(1, "active", "")}, nil},
	} {
		t.Run("", func(t *testing.T) {
			passing(t, func(k *clock) {
				k.told(10, c.facts...)
				k.want(c.name, dueFor(k.T, k.tx, `where why = 'renewal'`), c.want...)
			})
		})
	}
	t.Run("", func(t *testing.T) {
		passing(t, func(c *clock) {
			c.told(10, updated(1, "active", "pro"))
			task := billing.OpenTask(billing.Task{Mode: "live", Kind: billing.TaskReconcile, Object: "sub_1", Account: "acme", Subscription: "sub_1"})
			if _, err := c.tx.Exec(c.Context(), task.SQL, task.Args...); err != nil {
				c.Fatal(err)
			}
			c.told(40*aDay, updated(40*aDay, "active", "pro", with(inPeriod(2))))
			c.want("the task", taskStates(c), "cancelled")
		})
	})
}

// A plan has ended or never arrived, and a subscription with add-ons continues.
func TestApplyDue_AddOnAlone(t *testing.T) {
	addOn := func(second int) fact.Fact { return created(second, "active", "sso", of("sub_2", "acme", "")) }
	alone := func(c *clock) []string { return dueFor(c.T, c.tx, `where why = 'add_on'`) }
	for name, facts := range map[string][]fact.Fact{
		"the plan ends":            {created(0, "active", "pro"), addOn(1), deleted(20, "pro")},
		"the end is told first":    {deleted(20, "pro"), created(0, "active", "pro"), addOn(1)},
		"the plan has never come":  {addOn(1)},
		"the add-on is told first": {addOn(1), created(0, "active", "pro"), deleted(20, "pro")},
	} {
		t.Run("", func(t *testing.T) {
			passing(t, func(c *clock) {
				c.told(20, facts...)
				c.want(name, alone(c), "add_on sub_2 at 10m20s")
				c.told(30, created(30, "active", "starter", of("sub_3", "acme", "")))
				c.want(name+", and another plan comes", alone(c))
			})
		})
	}
	t.Run("", func(t *testing.T) {
		passing(t, func(c *clock) {
			c.told(20, created(0, "active", "pro"), addOn(1))
			c.want("beside a plan", alone(c))
		})
	})
}

func inPeriod(n int) func(*fact.Subscription) {
	return func(s *fact.Subscription) { s.Items[0].PeriodStart, s.Items[0].PeriodEnd = monthly(n) }
}

func taskStates(c *clock) []string {
	c.Helper()
	found, err := c.tx.Query(c.Context(), `select state from tasks`)
	if err != nil {
		c.Fatal(err)
	}
	states, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		c.Fatal(err)
	}
	return states
}

// Case 3 of the billing model: a paid invoice replaces the missing event of its subscription. If that event does not
// arrive, a task opens. When the event arrives, the task closes. A refund arrives before the invoice of its payment,
// and a link names its account. The refund waits for the tax of the invoice. It is booked without tax only if no
// event has reported the invoice within policy.subscription_wait.
func TestApplyDue_RefundBeforeItsInvoice_WaitsForTax(t *testing.T) {
	booked := func(c *clock) []string {
		return dueFor(c.T, c.tx, `where why = 'book'`)
	}
	t.Run("the invoice comes", func(t *testing.T) {
		passing(t, func(c *clock) {
			c.told(10, linked("cus_1", 0, "acme"), charge(1, 0), refunded("re_1", 10, "succeeded", 300))
			c.want("it waits", booked(c), "book re_1 at 10m10s")
			c.told(20, paid(1, 1, "pro", taxed))
			c.want("its invoice is known", booked(c))
			c.want("with its tax", texts(t, c.tx, `select state ->> 'Tax' from refunds`), "48")
		})
	})
	t.Run("nothing comes", func(t *testing.T) {
		passing(t, func(c *clock) {
			c.told(10, charge(1, 0), refunded("re_1", 10, "succeeded", 300))
			c.want("its account is unknown", booked(c))
			c.told(10, linked("cus_1", 10, "acme"))
			c.want("the link tells", booked(c), "book re_1 at 10m10s")
			c.want("it has settled", c.comes(years(0)), "book re_1 by evt_2", "acme:")
			c.told(years(0), refunded("re_1", 20, "failed", 300))
			c.want("it fails, and is due again", texts(t, c.tx, `select object || ' ' || step from due where why = 'book'`), "re_1 1")
		})
	})
}

func TestApplyDue_Case3_Settle(t *testing.T) {
	passing(t, func(c *clock) {
		c.told(100, paid(1, 1, "pro"))
		c.want("due", dueRows(c.T, c.tx), "settle sub_1 at 10m1s")
		c.want("nothing has come", c.comes(601), "settle sub_1 by evt_1", proActive)
		open := billing.OpenTask(billing.Task{Mode: "live", Kind: billing.TaskReconcile, Object: "sub_1", Account: "acme", Subscription: "sub_1"})
		if _, err := c.tx.Exec(c.Context(), open.SQL, open.Args...); err != nil {
			c.Fatal(err)
		}
		c.told(700, updated(1, "active", "pro"))
		c.want("the task", taskStates(c), "cancelled")
		c.want("due", dueRows(c.T, c.tx))
	})
}

// An open invoice stays due, however many newer invoices its subscription has, because usage may be billed daily.
func TestApply_ManyNewerInvoices_RemindersStay(t *testing.T) {
	passing(t, func(c *clock) {
		c.told(0, created(0, "active", "pro"))
		c.told(10, failed(1, 10, 1, "pro"))
		reminders := []string{"dunning in_1 2 at 72h0m10s", "dunning in_1 3 at 168h0m10s", "dunning in_1 4 at 336h0m10s"}
		c.want("failed", dueRows(c.T, c.tx), reminders...)
		for n := 2; n < 30; n++ {
			c.told(10*n, paid(n, 10*n, "pro"))
		}
		c.want("after 28 newer ones", dueRows(c.T, c.tx), reminders...)
		c.told(900, failed(30, 900, 1, "pro"))
		c.told(901, paid(30, 901, "pro"))
		c.want("after another one that failed", dueRows(c.T, c.tx), reminders...)
		c.told(1000, paid(1, 1000, "pro"))
		c.want("paid", dueRows(c.T, c.tx))
	})
}

// A customer gets at most one e-mail per day about an invoice: a reminder is omitted if a failed attempt was reported
// on that day.
func TestApply_AttemptOnTheDayOfAReminder_NoReminder(t *testing.T) {
	passing(t, func(c *clock) {
		c.told(0, created(0, "active", "pro"))
		c.told(10, failed(1, 10, 1, "pro"))
		c.want("failed", dueRows(c.T, c.tx), "dunning in_1 2 at 72h0m10s", "dunning in_1 3 at 168h0m10s", "dunning in_1 4 at 336h0m10s")
		c.told(20, failed(1, 3*aDay+11*hour, 2, "pro"))
		c.want("failed again, hours after the first step", dueRows(c.T, c.tx), "dunning in_1 3 at 168h0m10s", "dunning in_1 4 at 336h0m10s")
		c.told(30, failed(1, 6*aDay+12*hour, 3, "pro"))
		c.want("and hours before the second", dueRows(c.T, c.tx), "dunning in_1 4 at 336h0m10s")
	})
}
