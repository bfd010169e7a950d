package workflows_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/workflows"
)

const (
	exportKey = "finance-export:stripe:live:in_1"
	mailKey   = "receipt-email:stripe:live:in_1"
)

// waits returns, for each park, the effects that the run waited for.
func (f *flowTest) waits() (all []activities.Waits) {
	for _, c := range f.callsOf("ParkRun") {
		all = append(all, c.input.(activities.ParkRunInput).Waits)
	}
	return all
}

func (f *flowTest) wantRefused(want ...string) {
	f.Helper()
	if len(f.refused) != len(want) {
		f.Fatalf("refused %q, want %d", f.refused, len(want))
	}
	for i, w := range want {
		if !strings.Contains(f.refused[i], w) {
			f.Errorf("refusal %d is %q, want %q", i, f.refused[i], w)
		}
	}
}

func TestDecision_RetryOfOneEffect_LeavesTheOthers(t *testing.T) {
	f := setup(t, loaded())
	f.answer("finance-export", came(effect.Failed, "503"))
	f.answer("receipt-email", came(effect.Failed, "greylisted"))
	one := ada
	one.Effect = "finance-export"
	f.decide(time.Hour, workflows.UpdateRetry, one)
	f.env.RegisterDelayedCallback(func() {
		if n := len(f.callsOf("receipt-email")); n != 1 {
			t.Errorf("the mail was tried %d times after a retry of the entry", n)
		}
	}, 2*time.Hour)
	f.decide(2*time.Hour, workflows.UpdateRetry, ada)
	f.wantOutcome(f.run(), "processed", "")
	if exports, mails := len(f.callsOf("finance-export")), len(f.callsOf("receipt-email")); exports != 2 || mails != 2 {
		t.Errorf("tried the entry %d and the mail %d times, want each twice", exports, mails)
	}
	waits := f.waits()
	if len(waits) != 2 || len(waits[0].Effects) != 2 || len(waits[1].Effects) != 1 || waits[1].Effects[0].Key != mailKey {
		t.Errorf("waited for %+v, want the mail alone at last", waits)
	}
	if got := f.callsOf("RecordDecision")[0].input.(activities.RecordDecisionInput).Effect; got != "finance-export" {
		t.Errorf("looked up as about %q", got)
	}
}

// The run of another event completes the effects that a parked run waits for. The parked run is woken, and its result
// names the other event. Decisions made in the meantime have no effect and are not recorded.
func TestPark_OthersHaveSettledIt_EndsAsDoneByThem(t *testing.T) {
	done := activities.ReadEffectsResult{Settled: map[string]effect.Result{exportKey: {State: effect.AlreadyDone, By: "evt_0"}}}
	for name, learn := range map[string]func(*flowTest){
		"by a signal": func(f *flowTest) {
			f.env.RegisterDelayedCallback(func() { f.env.SignalWorkflow(activities.SignalSettled, nil) }, time.Hour)
		},
		"when it parks": func(f *flowTest) { f.settledAtPark = true },
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, loaded())
			f.answer("finance-export", came(effect.Failed, "503"))
			f.seen = []activities.ReadEffectsResult{{}, done}
			learn(f)
			result := f.run()
			f.wantOutcome(result, "processed", "")
			if got := states(result)[exportKey]; got != "already_done" || len(f.callsOf("RecordDecision")) > 0 || len(f.callsOf("ParkRun")) != 1 {
				t.Errorf("the entry is %s after %v", got, f.order())
			}
		})
	}
}

// If the signal arrives too early, the run stays parked for the same reason.
func TestPark_SettledInVain_ParksAgain(t *testing.T) {
	f := setup(t, loaded())
	f.answer("finance-export", came(effect.Failed, "503"))
	f.env.RegisterDelayedCallback(func() { f.env.SignalWorkflow(activities.SignalSettled, nil) }, time.Hour)
	f.decide(2*time.Hour, workflows.UpdateRetry, ada)
	f.wantOutcome(f.run(), "processed", "")
	if parks, tries := len(f.callsOf("ParkRun")), len(f.callsOf("finance-export")); parks != 2 || tries != 2 {
		t.Errorf("parked %d times and tried the entry %d times, want both twice", parks, tries)
	}
	if !slices.Equal(f.woken, []string{exportKey}) {
		t.Errorf("woke the runs that wait for %v, want the entry", f.woken)
	}
}

// ParkRun reports repeatedly that other runs have settled the effects, although the ledger does not contain them.
func TestPark_SettledForNobody_WaitsForAPerson(t *testing.T) {
	f := setup(t, loaded())
	f.settledAtPark = true
	f.answer("finance-export", came(effect.Failed, "503"))
	f.decide(time.Hour, workflows.UpdateRetry, ada)
	f.wantOutcome(f.run(), "processed", "")
	if parks := len(f.callsOf("ParkRun")); parks != 2 {
		t.Errorf("parked %d times, want twice", parks)
	}
}

// A retry repeats no uncertain effect: only resend, which requires a confirmation, sends it again.
func TestDecision_RetryLeavesWhatIsInDoubt_ResendRepeatsIt(t *testing.T) {
	f := setup(t, loaded())
	f.answer("finance-export", came(effect.Failed, "503"))
	f.answer("receipt-email", answer{result: effect.Result{State: effect.Uncertain, Reason: "no answer to the final dot", Round: 2}})
	f.decide(time.Hour, workflows.UpdateRetry, ada)
	f.decide(2*time.Hour, workflows.UpdateRetry, ada)
	named, unconfirmed, other := ada, ada, confirmed(mailKey)
	named.Effect, unconfirmed.Effect, other.Confirm = mailKey, mailKey, exportKey
	f.decide(3*time.Hour, workflows.UpdateRetry, named)
	f.decide(4*time.Hour, workflows.UpdateResend, unconfirmed)
	f.decide(5*time.Hour, workflows.UpdateResend, other)
	f.decide(6*time.Hour, workflows.UpdateResend, confirmed(mailKey))
	f.wantOutcome(f.run(), "processed", "")
	f.wantRefused("does not accept retry in its present state: it accepts skip, done, resend, compensate", "does not accept retry", "confirm with the key of the effect", "confirm with")
	if exports, mails := f.callsOf("finance-export"), f.callsOf("receipt-email"); len(exports) != 2 || len(mails) != 2 || mails[1].effect.Round != 3 {
		t.Errorf("tried the entry %d times, and the mail %+v; want each twice, the mail in a later round than the ledger's", len(exports), mails)
	}
	if waits := f.waits(); len(waits) != 2 || !slices.Equal(waits[0].Decisions, []string{"skip", "retry", "done", "resend", "compensate"}) {
		t.Errorf("waited for %+v", waits)
	}
}

func TestDecision_Resend_OfWhatIsNotInDoubt_Refused(t *testing.T) {
	f := setup(t, loaded())
	f.answer("finance-export", came(effect.Failed, "503"))
	f.answer("receipt-email", came(effect.Uncertain, "nobody knows"))
	named := ada
	named.Effect = mailKey
	f.decide(time.Hour, workflows.UpdateResend, confirmed(exportKey))
	f.decide(2*time.Hour, workflows.UpdateRetry, named)
	f.decide(3*time.Hour, workflows.UpdateSkip, ada)
	f.wantOutcome(f.run(), "processed", "")
	f.wantRefused("is not uncertain: use retry", "may have happened, so it cannot be retried")
}

// An effect that a person marks as done is not sent, and a compensation undoes it.
func TestDecision_Done_RecordedAndTakenBackLater(t *testing.T) {
	f := setup(t, loaded())
	f.answer("finance-export", came(effect.Failed, "503"))
	f.answer("receipt-email", came(effect.Failed, "no such mailbox"))
	done := workflows.DecisionInput{Actor: "ada", Reason: "booked by hand", Effect: "finance-export", Reference: "4711"}
	f.decide(time.Hour, workflows.UpdateDone, done)
	f.decide(2*time.Hour, workflows.UpdateCompensate, ada)
	f.wantOutcome(f.run(), "compensated", "ada decided to compensate")
	calls := f.callsOf("finance-export")
	if len(calls) != 2 || calls[1].effect.ByHand == nil || *calls[1].effect.ByHand != (effect.ByHand{Actor: "ada", Reason: "booked by hand", Reference: "4711"}) {
		t.Fatalf("calls %+v, want the actor in the second one", calls)
	}
	if n := len(f.callsOf("receipt-email")); n != 1 {
		t.Errorf("the mail was tried %d times, want it left", n)
	}
	undo := f.callsOf("reverse-finance-entry")
	if len(undo) != 1 || undo[0].effect.Compensates != exportKey || undo[0].effect.ByHand != nil {
		t.Errorf("undone by %+v", undo)
	}
	if in := f.callsOf("RecordDecision")[0].input.(activities.RecordDecisionInput); in.Reference != "4711" {
		t.Errorf("recorded %+v", in)
	}
}

func TestDecision_Done_RefusedWhereNobodyCanSayIt(t *testing.T) {
	f := setup(t, loaded())
	f.answer("apply-facts", came(effect.Refused, "the database refuses it"))
	f.answer("finance-export", came(effect.Failed, "503"))
	f.answer("receipt-email", came(effect.Failed, "503"))
	referred := ada
	referred.Reference = "4711"
	f.decide(time.Hour, workflows.UpdateDone, referred)
	f.decide(2*time.Hour, workflows.UpdateRetry, ada)
	unreferred, nameless := ada, referred
	unreferred.Effect = exportKey
	f.decide(3*time.Hour, workflows.UpdateDone, unreferred)
	f.decide(4*time.Hour, workflows.UpdateDone, nameless)
	f.decide(5*time.Hour, workflows.UpdateSkip, ada)
	f.wantOutcome(f.run(), "processed", "")
	f.wantRefused("does not accept done in its present state", "done requires a reference", "done applies to one effect: name one of "+exportKey+", "+mailKey)
}

// receiptSent is a ledger in which the receipt of Toy's invoice is done.
func receiptSent() []activities.ReadEffectsResult {
	return []activities.ReadEffectsResult{{Settled: map[string]effect.Result{"receipt-email:stripe:live:in_1": {State: effect.Done}}}}
}

func TestDecision_Review_ApprovedOrRejected(t *testing.T) {
	t.Parallel()
	atEnd := activities.LoadFactsResult{Planning: activities.Planning{BookZero: true}}
	for name, tt := range map[string]struct {
		load    []activities.LoadFactsResult
		decide  string
		outcome string
		reason  string
		// rejected and closed count the rejections and the approvals of the review.
		rejected, closed int
	}{
		"at load, approved": {[]activities.LoadFactsResult{reviewed("plan_unusable", "a plan"), loaded()}, workflows.UpdateApprove, "processed", "", 0, 0},
		"at load, rejected": {[]activities.LoadFactsResult{reviewed("plan_unusable", "a plan")}, workflows.UpdateReject, "processed", "dismissed: nothing done: reject by ada", 0, 0},
		"at end, approved":  {[]activities.LoadFactsResult{atEnd}, workflows.UpdateApprove, "processed", "", 0, 1},
		"at end, rejected":  {[]activities.LoadFactsResult{atEnd}, workflows.UpdateReject, "processed", "withheld: ada decided to reject", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, tt.load...)
			f.seen = receiptSent()
			f.decide(time.Hour, tt.decide, ada)
			f.wantOutcome(f.run(), tt.outcome, tt.reason)
			if rejected, closed := len(f.callsOf("reject-review")), len(f.callsOf("close-review")); rejected != tt.rejected || closed != tt.closed {
				t.Errorf("%d reviews are rejected and %d approved, want %d and %d", rejected, closed, tt.rejected, tt.closed)
			}
			if withheld, corrected := len(f.callsOf("withhold-grant")), len(f.callsOf("correction-notice")); withheld != tt.rejected || corrected != tt.rejected {
				t.Errorf("%d grants are withheld and %d receipts corrected, want %d", withheld, corrected, tt.rejected)
			}
			if reversed := len(f.callsOf("reverse-finance-entry")); reversed != 0 {
				t.Errorf("%d entries are reversed, want the payment to stay booked", reversed)
			}
		})
	}
}

// A retry does not apply to a review at the end of a run: the error lists the possible decisions.
func TestDecision_Review_TakesWhatItOffers(t *testing.T) {
	f := setup(t, activities.LoadFactsResult{Planning: activities.Planning{BookZero: true}})
	f.decide(time.Hour, workflows.UpdateRetry, ada)
	f.decide(2*time.Hour, workflows.UpdateApprove, ada)
	f.wantOutcome(f.run(), "processed", "")
	f.wantRefused("does not accept retry in its present state: it accepts approve, skip, reject, compensate")
}

// A replay does not open a decided review again.
func TestDecision_ReviewAnsweredBefore_NotAskedByAReplay(t *testing.T) {
	f := setup(t, activities.LoadFactsResult{Planning: activities.Planning{BookZero: true}})
	f.answer("review", answer{result: effect.Result{State: effect.AlreadyDone}})
	f.seen = []activities.ReadEffectsResult{{Settled: map[string]effect.Result{"close-review:stripe:live:in_1": {State: effect.AlreadyDone}}}}
	f.replay = &workflows.ReplayInput{Request: "r1", Actor: "ada", Reason: "again", Previous: "run-1"}
	f.wantOutcome(f.run(), "processed", "")
	if n := len(f.waits()); n != 0 {
		t.Errorf("parked %d times", n)
	}
	if in := f.callsOf("FinishRun")[0].input.(activities.FinishRunInput); in.Replay == nil || *in.Replay != *f.replay {
		t.Errorf("finished as %+v, want the replay's lineage", in)
	}
}

// If a person has rejected an object, later events of the object open no review, and apply the rejection.
func TestDecision_ReviewRejectedBefore_NotAskedAgain(t *testing.T) {
	f := setup(t, activities.LoadFactsResult{Planning: activities.Planning{BookZero: true}})
	f.answer("review", answer{result: effect.Result{State: effect.Compensated, By: "evt_0"}})
	f.seen = receiptSent()
	f.wantOutcome(f.run(), "processed", "withheld: it was rejected before")
	for kind, want := range map[string]int{"reject-review": 1, "withhold-grant": 1, "correction-notice": 1, "reverse-finance-entry": 0, "ParkRun": 0} {
		if n := len(f.callsOf(kind)); n != want {
			t.Errorf("%s was called %d times, want %d", kind, n, want)
		}
	}
}

// A replay retries failed effects once, in a later round, and does not retry uncertain effects.
func TestDecision_Replay_TriesAgainWhatHadFailed(t *testing.T) {
	f := setup(t, loaded())
	f.answer("finance-export", answer{result: effect.Result{State: effect.Failed, Reason: "503", Round: 3, Met: true}}, came(effect.Failed, "503"))
	f.answer("receipt-email", answer{result: effect.Result{State: effect.Uncertain, Reason: "nobody knows", Met: true}})
	f.replay = &workflows.ReplayInput{Request: "r1", Actor: "ada", Reason: "again"}
	f.decide(time.Hour, workflows.UpdateSkip, ada)
	f.wantOutcome(f.run(), "processed", "")
	if exports, mails := f.callsOf("finance-export"), f.callsOf("receipt-email"); len(exports) != 2 || exports[1].effect.Round != 4 || len(mails) != 1 {
		t.Errorf("tried the entry %+v, and the mail %d times", exports, len(mails))
	}
}

// The table contains every reason code of a review with its answers, and no other code.
func TestReviews_EachOnce(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, r := range workflows.Reviews() {
		if seen[r.Code] || r.Asks == "" || r.Approve == "" || r.Reject == "" {
			t.Errorf("%+v", r)
		}
		seen[r.Code] = true
	}
	for _, code := range []string{activities.CodeUnreadable, activities.CodeBodyErased, activities.CodeNoDestination} {
		if !seen[code] {
			t.Errorf("no word about %s", code)
		}
	}
	for _, stage := range []workflows.Stage{workflows.BeforeRun, workflows.AtLoad, workflows.AtEnd} {
		if r := workflows.ReviewOf("new_code", stage); r.Stage != stage || r.Approve == "" || r.Reject == "" {
			t.Errorf("at %s: %+v", stage, r)
		}
	}
}
