package flowtest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/uuid"

	operatoraccount "github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/job"
)

// `pawl accounts announce` publishes the state from before effects were switched on. On request, it also provisions
// the workspaces. It books nothing and sends no e-mail. Later events are published after it, with a greater version.
func TestAnnounce_WhatWasBefore_ToldAndProvisioned(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.exec(`insert into effects_from (mode, at, changed_by) values ('live', $1, 'a test')`, bought)
	seed, fresh := "day0-"+uuid.NewString()[:8], "fresh-"+uuid.NewString()[:8]
	r.result(r.receive(purchaseAt(t, seed, "invoice.paid", "starter", bought.Add(-1e9))), "")
	r.result(r.receive(purchase(t, fresh, "invoice.paid", "starter")), "")
	told := func(s string) (got []string) {
		for _, e := range r.journal("events") {
			if e.Body["version"] != nil && e.First && e.Body["account"] == "acct-"+s {
				got = append(got, fmt.Sprint("v", e.Body["version"], " ", e.Body["plan"], " ", e.Body["reason"]))
			}
		}
		return got
	}
	workspaces := func() int { return len(r.journal("workspaces")) }
	r.until("the new account is told and has its workspace", func() bool { return len(told(fresh)) == 1 && workspaces() == 1 })
	booked, written := len(r.journal("finance")), len(r.journal("email"))
	if got := told(seed); len(got) != 0 {
		t.Fatalf("the old account is published before: %v", got)
	}

	announce := func(to billing.Announcement) {
		t.Helper()
		accounts, err := account.List(t.Context(), r.Pool, account.Filter{Limit: math.MaxInt32})
		if err != nil {
			t.Fatal(err)
		}
		b, id := bulkRig{rig: r}, "announce-"+uuid.NewString()[:8]
		made := operatoraccount.AnnounceJob(to, accounts)
		made.Rate = 100
		b.mustStart(id, made)
		if again, err := b.start(id, made); err != nil || !again.Repeated {
			t.Errorf("the request again: %+v, %v", again, err)
		}
		if d := b.await(id, "finished", state(job.Finished)); d.Done != 2 || d.Items != 2 {
			t.Errorf("the job has %d of %d done: %+v", d.Done, d.Items, d.List)
		}
	}
	announce(billing.Announcement{})
	r.until("both are told", func() bool { return len(told(seed)) == 1 && len(told(fresh)) == 2 })
	if got := r.rows(`select account from due where why = 'refold'`); workspaces() != 1 || len(got) != 0 {
		t.Errorf("%d workspaces were brought to their targets, %v wait", workspaces(), got)
	}
	announce(billing.Announcement{OnlyTo: "events", Provision: true})
	r.until("the workspace has followed", func() bool {
		return slices.Equal(r.rows(`select plan || ' v' || version from workspaces where account = $1`, "acct-"+seed), []string{"starter v1"})
	})
	announce(billing.Announcement{OnlyTo: "another"})
	if f, e := len(r.journal("finance")), len(r.journal("email")); f != booked || e != written {
		t.Errorf("it caused %d entries and %d e-mails", f-booked, e-written)
	}
	r.result(r.receive(rename(t, purchase(t, seed, "customer.subscription.updated", "pro"), "evt_"+seed+"_up")), "")
	r.until("the change is told", func() bool { return len(told(seed)) >= 3 })
	if got, want := told(seed), []string{"v1 starter announce", "v1 starter announce", "v2 pro <nil>"}; !slices.Equal(got, want) {
		t.Errorf("published %v, want %v", got, want)
	}
	if got := r.rows(`select type from outbox where only_to = 'another' and published_at is null and account = $1`, "acct-"+seed); len(got) != 0 {
		t.Errorf("%v wait for a destination that is no more", got)
	}
}
