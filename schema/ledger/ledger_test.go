package ledger_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/groupcommit"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) { schematest.Main(m) }

type bundle struct {
	*testing.T
	pool  *pgxpool.Pool
	store *ledger.Store
}

func setup(t *testing.T) bundle {
	t.Helper()
	t.Parallel()
	pool := schematest.New(t)
	store := ledger.New(pool, groupcommit.Config{})
	t.Cleanup(store.Close)
	return bundle{t, pool, store}
}

func (b bundle) claim(eventID string, round int) ledger.Claim {
	if eventID != "" {
		schematest.Receipts(b, b.pool, eventID)
	}
	return ledger.Claim{
		Ref:     schematest.Ref(eventID),
		Key:     "receipt-email:stripe:live:in_1",
		Kind:    "receipt-email",
		Round:   round,
		RunID:   "run",
		Lease:   time.Minute,
		Request: []byte("bytes of " + eventID),
	}
}

func (b bundle) grant(c ledger.Claim) ledger.Grant {
	b.Helper()
	g, err := b.store.Claim(b.Context(), c)
	if err != nil {
		b.Fatal(err)
	}
	return g
}

func (b bundle) finish(f ledger.Finish) ledger.Finished {
	b.Helper()
	f.StartedAt = time.Now()
	done, err := b.store.Finish(b.Context(), f)
	if err != nil {
		b.Fatal(err)
	}
	return done
}

// lapse lets the lease of every claim expire.
func (b bundle) lapse() {
	b.Helper()
	if _, err := b.pool.Exec(b.Context(), `update effects set lease_until = now() - interval '1 second'`); err != nil {
		b.Fatal(err)
	}
}

func TestClaim_ManyAtOnce_OneIsGranted(t *testing.T) {
	b := setup(t)
	grants := make([]ledger.Grant, 50)
	var group sync.WaitGroup
	for i := range grants {
		group.Go(func() { grants[i] = b.grant(b.claim(fmt.Sprintf("evt_%d", i), 0)) })
	}
	group.Wait()
	granted := 0
	for _, g := range grants {
		if g.Granted {
			granted++
		} else if g.State != ledger.Claimed || g.LeaseUntil.IsZero() {
			t.Errorf("got %+v, want claimed by another with its lease", g)
		}
	}
	if granted != 1 {
		t.Errorf("got %d grants, want 1", granted)
	}
}

func TestClaim_Done_ReturnsWhatIsRecorded(t *testing.T) {
	b := setup(t)
	g := b.grant(b.claim("evt_1", 0))
	b.finish(ledger.Finish{Key: "receipt-email:stripe:live:in_1", Token: g.Token, State: ledger.Done, Result: json.RawMessage(`{"MessageID":"x"}`)})

	got := b.grant(b.claim("evt_2", 3))
	if got.Granted || got.State != ledger.Done || got.EventID != "evt_1" || string(got.Result) != `{"MessageID": "x"}` {
		t.Errorf("got %+v (%s), want done by evt_1 with its result, also in a later round", got, got.Result)
	}
}

// A released claim can be claimed again at once, in the same generation and with the same bytes. It stores no attempt and
// counts as no failure.
func TestRelease_ClaimedAgain_NoAttempt(t *testing.T) {
	b := setup(t)
	c := b.claim("evt_1", 0)
	g := b.grant(c)
	if err := b.store.Release(t.Context(), c.Key, g.Token+1, "of another claim"); err != nil {
		t.Fatal(err)
	}
	if other := b.grant(c); other.Granted {
		t.Fatalf("released by another claim: %+v", other)
	}
	if err := b.store.Release(t.Context(), c.Key, g.Token, "it runs"); err != nil {
		t.Fatal(err)
	}
	found, err := b.store.Read(t.Context(), []string{c.Key})
	if at := found[c.Key]; err != nil || at.State != ledger.Failed || at.Class != ledger.Transient || at.Error != "it runs" {
		t.Errorf("read %+v, %v", at, err)
	}
	again := b.claim("evt_2", 0)
	if g := b.grant(again); !g.Granted || g.Generation != 1 || g.Failures != 0 || string(g.Request) != "bytes of evt_1" {
		t.Errorf("got %+v", g)
	}
	var attempts int
	if err := b.pool.QueryRow(t.Context(), `select count(*) from effect_attempts`).Scan(&attempts); err != nil || attempts != 0 {
		t.Errorf("%d attempts, %v", attempts, err)
	}
}

func TestClaim_AfterTransientFailure_SendsTheSameBytes(t *testing.T) {
	b := setup(t)
	g := b.grant(b.claim("evt_1", 0))
	b.finish(ledger.Finish{Key: "receipt-email:stripe:live:in_1", Token: g.Token, State: ledger.Failed, Class: ledger.Transient, Error: "503"})

	got := b.grant(b.claim("evt_2", 0))
	if !got.Granted || got.Generation != 1 || string(got.Request) != "bytes of evt_1" || got.Attempt != 2 {
		t.Errorf("got %+v with %q, want generation 1, attempt 2 and the first attempt's bytes", got, got.Request)
	}
}

func TestFinish_FailuresOfARound_AreCountedAndEnd(t *testing.T) {
	b := setup(t)
	fail := func(round int, class ledger.Class) ledger.Grant {
		g := b.grant(b.claim("evt_1", round))
		if !g.Granted {
			t.Fatalf("not granted in round %d: %+v", round, g)
		}
		b.finish(ledger.Finish{Key: "receipt-email:stripe:live:in_1", Token: g.Token, State: ledger.Failed, Class: class})
		if _, err := b.pool.Exec(b.Context(), `update effects set tried_since = tried_since - interval '1 hour'`); err != nil {
			t.Fatal(err)
		}
		return g
	}
	for round := range 2 {
		if g := fail(round, ledger.Transient); g.Failures != 0 || g.Trying >= time.Hour {
			t.Errorf("round %d: the first claim reports %d failures since %s", round, g.Failures, g.Trying)
		}
		if g := fail(round, ledger.Exhausted); g.Failures != 1 || g.Trying < time.Hour || g.Trying >= 2*time.Hour {
			t.Errorf("round %d: the second claim reports %d failures since %s, want one, since an hour ago", round, g.Failures, g.Trying)
		}
		if g := b.grant(b.claim("evt_1", round)); g.Granted || g.Class != ledger.Exhausted {
			t.Errorf("round %d: got %+v, want exhausted until the next round", round, g)
		}
	}
}

func TestClaim_AnsweredForGood_OnlyALaterRoundSendsAgain_AsANewGeneration(t *testing.T) {
	t.Parallel()
	for _, class := range []ledger.Class{ledger.Permanent, ledger.Fault} {
		t.Run(string(class), func(t *testing.T) {
			b := setup(t)
			g := b.grant(b.claim("evt_1", 0))
			b.finish(ledger.Finish{Key: "receipt-email:stripe:live:in_1", Token: g.Token, State: ledger.Failed, Class: class, Error: "422"})

			if got := b.grant(b.claim("evt_1", 0)); got.Granted || got.Class != class || got.Error != "422" {
				t.Errorf("got %+v, want the recorded result", got)
			}
			got := b.grant(b.claim("evt_9", 1))
			if !got.Granted || got.Generation != 2 || string(got.Request) != "bytes of evt_9" {
				t.Errorf("got %+v with %q, want generation 2 with new bytes", got, got.Request)
			}
		})
	}
}

// An attempt got no answer, and the sink may have applied it. With another key the sink would apply it twice, so the
// key stays the same.
func TestClaim_AnsweredForGoodAfterUnanswered_KeepsKeyAndBytes(t *testing.T) {
	t.Parallel()
	for _, class := range []ledger.Class{ledger.Permanent, ledger.Fault} {
		t.Run(string(class), func(t *testing.T) {
			b := setup(t)
			g := b.grant(b.claim("evt_1", 0))
			first := g.ClaimedAt
			b.finish(ledger.Finish{Key: b.claim("", 0).Key, Token: g.Token, State: ledger.Failed, Class: ledger.Transient, Result: json.RawMessage(`{"Unanswered": true}`)})
			g = b.grant(b.claim("evt_1", 0))
			b.finish(ledger.Finish{Key: b.claim("", 0).Key, Token: g.Token, State: ledger.Failed, Class: class, Error: "401"})

			got := b.grant(b.claim("evt_9", 1))
			if !got.Granted || got.Generation != 1 || string(got.Request) != "bytes of evt_1" || !got.ClaimedAt.Equal(first) {
				t.Errorf("got %+v with %q, want generation 1 with the first attempt's bytes and age", got, got.Request)
			}
		})
	}
}

// An unanswered attempt of one generation does not determine the key of the next generation, which got a definitive
// answer.
func TestClaim_RefusedAfterDoubtInAnEarlierGeneration_SendsAnew(t *testing.T) {
	b := setup(t)
	unanswered := json.RawMessage(`{"Unanswered": true}`)
	g := b.grant(b.claim("evt_1", 0))
	b.finish(ledger.Finish{Key: b.claim("", 0).Key, Token: g.Token, State: ledger.Uncertain, Class: ledger.Ambiguous, Result: unanswered})
	g = b.grant(b.claim("evt_2", 1))
	if !g.Granted || g.Generation != 2 || string(g.Request) != "bytes of evt_2" {
		t.Fatalf("got %+v with %q, want a person's retry of a doubt to be generation 2", g, g.Request)
	}
	refused := b.finish(ledger.Finish{Key: b.claim("", 0).Key, Token: g.Token, State: ledger.Failed, Class: ledger.Permanent})
	if string(refused.Result) != `{"UnansweredBefore": true}` {
		t.Errorf("kept %s, want the open attempt of the first generation", refused.Result)
	}
	g = b.grant(b.claim("evt_3", 2))
	if !g.Granted || g.Generation != 3 || string(g.Request) != "bytes of evt_3" {
		t.Fatalf("got %+v with %q, want generation 3", g, g.Request)
	}
	b.finish(ledger.Finish{Key: b.claim("", 0).Key, Token: g.Token, State: ledger.Failed, Class: ledger.Permanent, Result: unanswered})
	if g = b.grant(b.claim("evt_4", 3)); !g.Granted || g.Generation != 3 || string(g.Request) != "bytes of evt_3" {
		t.Errorf("got %+v with %q, want generation 3 to stay, which was not answered either", g, g.Request)
	}
}

// After one unanswered attempt the outcome stays unknown, whatever the sink answers to later attempts.
func TestFinish_LaterAnswer_UnansweredStaysKnown(t *testing.T) {
	b := setup(t)
	g := b.grant(b.claim("evt_1", 0))
	b.finish(ledger.Finish{Key: b.claim("", 0).Key, Token: g.Token, State: ledger.Failed, Class: ledger.Transient, Result: json.RawMessage(`{"Unanswered": true}`)})
	g = b.grant(b.claim("evt_1", 0))
	done := b.finish(ledger.Finish{Key: b.claim("", 0).Key, Token: g.Token, State: ledger.Failed, Class: ledger.Exhausted})
	if string(done.Result) != `{"Unanswered": true}` {
		t.Errorf("finished with %s, want it still unanswered", done.Result)
	}
	if g := b.grant(b.claim("evt_1", 0)); g.Granted || string(g.Result) != `{"Unanswered": true}` {
		t.Errorf("grant %+v, want a refusal with the kept attempt", g)
	}
}

// A refused claim returns the current round, because a run after a reset, or a run of another event, does not know
// the number of earlier retries.
func TestClaim_Refused_TellsTheRound(t *testing.T) {
	b := setup(t)
	for _, round := range []int{0, 3} {
		g := b.grant(b.claim("evt_1", round))
		if !g.Granted || g.Round != round {
			t.Fatalf("round %d: %+v", round, g)
		}
		b.finish(ledger.Finish{Key: b.claim("", 0).Key, Token: g.Token, State: ledger.Failed, Class: ledger.Permanent})
	}
	g := b.grant(b.claim("evt_2", 1))
	if g.Granted || g.Round != 3 {
		t.Errorf("grant %+v, want it refused in round 3", g)
	}
	if g := b.grant(b.claim("evt_2", g.Round+1)); !g.Granted || g.Round != 4 {
		t.Errorf("grant %+v, want a later round to be served", g)
	}
}

func TestClaim_LeaseLapsed_TakenOverAndFenced(t *testing.T) {
	b := setup(t)
	zombie := b.grant(b.claim("evt_1", 0))
	b.lapse()
	heir := b.grant(b.claim("evt_1", 0))
	if !heir.Granted || heir.Token <= zombie.Token {
		t.Fatalf("got %+v after %+v, want a grant with a newer token", heir, zombie)
	}
	if held, err := b.store.Commit(t.Context(), "receipt-email:stripe:live:in_1", zombie.Token); err != nil || held {
		t.Errorf("zombie passes the point of no return: held %v, err %v", held, err)
	}
	if done := b.finish(ledger.Finish{Key: "receipt-email:stripe:live:in_1", Token: zombie.Token, State: ledger.Done}); done.Held {
		t.Error("zombie records an outcome")
	}
	if done := b.finish(ledger.Finish{Key: "receipt-email:stripe:live:in_1", Token: heir.Token, State: ledger.Done}); !done.Held {
		t.Error("heir cannot record its outcome")
	}
}

func TestClaim_LapsedAfterPointOfNoReturn_Uncertain(t *testing.T) {
	b := setup(t)
	g := b.grant(b.claim("evt_1", 0))
	if held, err := b.store.Commit(t.Context(), "receipt-email:stripe:live:in_1", g.Token); err != nil || !held {
		t.Fatalf("held %v, err %v", held, err)
	}
	b.lapse()
	if got := b.grant(b.claim("evt_1", 0)); got.Granted || got.State != ledger.Uncertain {
		t.Errorf("got %+v, want uncertain", got)
	}
	var state string
	if err := b.pool.QueryRow(t.Context(), `select state from effects`).Scan(&state); err != nil || state != "uncertain" {
		t.Errorf("row is %q (%v), want uncertain", state, err)
	}
	var attempts int
	if err := b.pool.QueryRow(t.Context(), `select count(*) from effect_attempts where outcome = 'uncertain' and error like '%may have happened'`).Scan(&attempts); err != nil || attempts != 1 {
		t.Errorf("%d attempts in doubt (%v), want the one without an outcome", attempts, err)
	}
	got := b.grant(b.claim("evt_1", 1))
	if !got.Granted || got.Generation != 2 {
		t.Errorf("got %+v, want a new generation after a person decided", got)
	}
	refused := b.finish(ledger.Finish{Key: "receipt-email:stripe:live:in_1", Token: got.Token, State: ledger.Failed, Class: ledger.Permanent})
	if string(refused.Result) != `{"UnansweredBefore": true}` {
		t.Errorf("kept %s, want that the first generation may have happened", refused.Result)
	}
}

// A run was terminated after the point of no return of its e-mail. It never claims the e-mail again, so no claim
// marks the e-mail as uncertain. The count of uncertain effects includes the e-mail.
func TestUncertain_ClaimLapsedAfterPointOfNoReturn_Counted(t *testing.T) {
	b := setup(t)
	uncertain := func() int {
		t.Helper()
		n, err := b.store.Uncertain(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	b.grant(b.claim("evt_1", 0))
	b.lapse()
	if n := uncertain(); n != 0 {
		t.Errorf("%d in doubt before the point of no return, want none", n)
	}
	g := b.grant(b.claim("evt_1", 0))
	if held, err := b.store.Commit(t.Context(), "receipt-email:stripe:live:in_1", g.Token); err != nil || !held {
		t.Fatalf("held %v, err %v", held, err)
	}
	if n := uncertain(); n != 0 {
		t.Errorf("%d in doubt while a worker executes it, want 0", n)
	}
	b.lapse()
	if n := uncertain(); n != 1 {
		t.Errorf("%d in doubt when the lease is over, want 1", n)
	}
	b.grant(b.claim("evt_1", 0))
	if n := uncertain(); n != 1 {
		t.Errorf("%d in doubt after a claim has marked it, want 1", n)
	}
}

// JSON can contain values that jsonb cannot store, and the answer of a sink can contain any bytes.
func TestFinish_WhatPostgresCannotHold_Dropped(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		`{"id":"a\u0000b"}`:                                        `{"id": "ab"}`,
		`["\u0000",{"k\u0000":["\uD800"]}]`:                        `["", {"k": ["�"]}]`,
		`{"n":12345678901234567890.10,"s":"\ud83d\ude00 \\u0000"}`: `{"n": 12345678901234567890.10, "s": "😀 \\u0000"}`,
		`"\u00001"`: `"1"`,
	} {
		t.Run(given, func(t *testing.T) {
			b := setup(t)
			if _, err := b.pool.Exec(t.Context(), `create table seen (reference text)`); err != nil {
				t.Fatal(err)
			}
			c := b.claim("evt_1", 0)
			args := []any{"a\x00b\xff"}
			done := b.finish(ledger.Finish{
				Key: c.Key, Token: b.grant(c).Token, State: ledger.Done, Result: json.RawMessage(given),
				Also: []ledger.Statement{{SQL: `insert into seen values ($1)`, Args: args}},
			})
			if !done.Held || string(done.Result) != want {
				t.Errorf("finished %+v with %s, want %s", done, done.Result, want)
			}
			var reference string
			if err := b.pool.QueryRow(t.Context(), `select reference from seen`).Scan(&reference); err != nil || reference != "ab?" {
				t.Errorf("reference %q, %v", reference, err)
			}
			if args[0] != "a\x00b\xff" {
				t.Error("the caller's arguments were changed")
			}
		})
	}
}

func TestClaim_Exclusive_OneAtATime_AndALapsedHolderIsLetGo(t *testing.T) {
	b := setup(t)
	first, second := b.claim("evt_1", 0), b.claim("evt_2", 0)
	first.Key, first.Exclusive = "provision:stripe:live:1", "workspace:acme"
	second.Key, second.Exclusive = "provision:stripe:live:2", "workspace:acme"
	if g := b.grant(first); !g.Granted {
		t.Fatalf("got %+v", g)
	}
	if g := b.grant(second); g.Granted || g.State != ledger.Claimed {
		t.Fatalf("got %+v, want held by another", g)
	}
	b.lapse()
	b.grant(second) // this claim releases the expired claim
	if g := b.grant(second); !g.Granted {
		t.Errorf("got %+v, want a grant once the holder lapsed", g)
	}
}

// Two effects with one exclusive name have failed, and a person retries both. The second effect waits for the first
// one and does not fail again.
func TestClaim_Exclusive_LaterRound_WaitsForTheOther(t *testing.T) {
	b := setup(t)
	first, second := b.claim("evt_1", 0), b.claim("evt_1", 0)
	first.Key, first.Exclusive = "notice:stripe:live:1", "notices:in_1"
	second.Key, second.Exclusive = "notice:stripe:live:2", "notices:in_1"
	for _, c := range []ledger.Claim{first, second} {
		g := b.grant(c)
		if _, err := b.store.Finish(t.Context(), ledger.Finish{Key: c.Key, Token: g.Token, State: ledger.Failed, Class: ledger.Exhausted, StartedAt: time.Now()}); err != nil || !g.Granted {
			t.Fatalf("%+v, %v", g, err)
		}
	}
	first.Round, second.Round = 1, 1
	if g := b.grant(first); !g.Granted {
		t.Fatalf("got %+v", g)
	}
	if g := b.grant(second); g.Granted || g.State != ledger.Claimed || g.LeaseUntil.IsZero() {
		t.Errorf("got %+v, want it held by the other", g)
	}
}

// A worker dies during an effect. If the effect sets a mark before it sends and no mark is stored, nothing was sent.
func TestClaim_LapsedUnmarked_KnownToBeUnanswered(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		unmarked bool
		kept     string // stored before the claim expires
		want     string
	}{
		"unmarked":                  {true, ``, `{"Unanswered": true}`},
		"after one that is":         {true, `{"Unanswered": true}`, `{"Unanswered": true}`},
		"in a later generation":     {true, `{"UnansweredBefore": true}`, `{"Unanswered": true, "UnansweredBefore": true}`},
		"marked first":              {false, ``, ``},
		"marked, after one that is": {false, `{"Unanswered": true}`, `{"Unanswered": true}`},
	} {
		t.Run(name, func(t *testing.T) {
			for by, take := range map[string]func(bundle, ledger.Claim){
				"the next claim": func(bundle, ledger.Claim) {},
				"another's claim of what is exclusive": func(b bundle, c ledger.Claim) {
					c.Key = "provision-workspace:stripe:live:2"
					b.grant(c)
				},
			} {
				t.Run(by, func(t *testing.T) {
					b := setup(t)
					c := b.claim("evt_1", 0)
					c.Exclusive, c.Unmarked = "workspace:acme", tt.unmarked
					b.grant(c)
					if _, err := b.pool.Exec(t.Context(), `update effects set result = nullif($1, '')::jsonb`, tt.kept); err != nil {
						t.Fatal(err)
					}
					b.lapse()
					take(b, c)
					g := b.grant(c)
					refused := b.finish(ledger.Finish{Key: c.Key, Token: g.Token, State: ledger.Failed, Class: ledger.Permanent, Error: "401"})
					if !refused.Held || string(refused.Result) != tt.want {
						t.Errorf("finished %+v with %s, want %s", refused, refused.Result, tt.want)
					}
				})
			}
		})
	}
}

func TestFinish_Undo_CompensatesTheForwardEffectInTheSameCommit(t *testing.T) {
	b := setup(t)
	forward := b.grant(b.claim("evt_1", 0))
	b.finish(ledger.Finish{Key: "receipt-email:stripe:live:in_1", Token: forward.Token, State: ledger.Done})
	undo := b.claim("evt_1", 0)
	undo.Key, undo.Kind = "correction-notice:stripe:live:in_1", "correction-notice"
	g := b.grant(undo)
	b.finish(ledger.Finish{Key: undo.Key, Token: g.Token, State: ledger.Done, Compensates: "receipt-email:stripe:live:in_1"})

	if got := b.grant(b.claim("evt_1", 5)); got.Granted || got.State != ledger.Compensated {
		t.Errorf("got %+v, want compensated in any round", got)
	}
}

// One run compensates an effect that may have happened, while another run retries it. The result of the retry arrives
// too late: the ledger lets no e-mail follow its correction, and does not mark a reversed entry as done.
func TestFinish_UndoOfWhatAnotherRunIsAt_ComesToNothing(t *testing.T) {
	b := setup(t)
	const key = "receipt-email:stripe:live:in_1"
	g := b.grant(b.claim("evt_1", 0))
	b.finish(ledger.Finish{Key: key, Token: g.Token, State: ledger.Uncertain, Class: ledger.Ambiguous})
	retry := b.grant(b.claim("evt_2", 1))

	undo := b.claim("evt_1", 0)
	undo.Key, undo.Kind = "correction-notice:stripe:live:in_1", "correction-notice"
	g = b.grant(undo)
	b.finish(ledger.Finish{Key: undo.Key, Token: g.Token, State: ledger.Done, Compensates: key})

	if held, err := b.store.Commit(t.Context(), key, retry.Token); err != nil || held {
		t.Errorf("held %v, %v: the mail would be sent after its correction", held, err)
	}
	if done := b.finish(ledger.Finish{Key: key, Token: retry.Token, State: ledger.Done}); done.Held {
		t.Error("a compensated effect was recorded as done")
	}
	if got := b.grant(b.claim("evt_2", 1)); got.Granted || got.State != ledger.Compensated {
		t.Errorf("got %+v, want compensated", got)
	}
}

func TestInTx_AllOrNothing(t *testing.T) {
	b := setup(t)
	if _, err := b.pool.Exec(t.Context(), `create table seen (n int)`); err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	inTx := func(event string, fail error) (ledger.Grant, error) {
		return b.store.InTx(t.Context(), b.claim(event, 0), ledger.Finish{StartedAt: time.Now()}, func(ctx context.Context, tx ledger.Tx) (json.RawMessage, error) {
			if _, err := tx.Exec(ctx, `insert into seen values (1)`); err != nil {
				return nil, err
			}
			return json.RawMessage(`{"N":1}`), fail
		})
	}
	for range 3 { // three times, each on a reset connection
		if g, err := inTx("evt_1", boom); !errors.Is(err, boom) || !g.Granted || g.Attempt != 1 {
			t.Fatalf("got %+v, %v; want a first claim and what went wrong", g, err)
		}
	}
	if _, err := b.store.InTx(t.Context(), b.claim("evt_1", 0), ledger.Finish{StartedAt: time.Now()}, func(ctx context.Context, tx ledger.Tx) (json.RawMessage, error) {
		_, err := tx.Exec(ctx, `select 1/0`)
		return nil, err
	}); err == nil {
		t.Error("a division by zero was recorded as done")
	}
	if g, err := inTx("evt_2", nil); err != nil || !g.Granted || g.Attempt != 1 {
		t.Fatalf("got %+v, %v; want a first claim, because the rollback left no row", g, err)
	}
	g, err := inTx("evt_3", boom)
	if err != nil || g.Granted || g.State != ledger.Done || g.EventID != "evt_2" || string(g.Result) != `{"N": 1}` {
		t.Errorf("got %+v, %v; want done by evt_2", g, err)
	}
	var seen int
	if err := b.pool.QueryRow(t.Context(), `select count(*) from seen`).Scan(&seen); err != nil || seen != 1 {
		t.Errorf("%d rows, %v; want only the committed one", seen, err)
	}
}

func TestSkip_UnfinishedOnly(t *testing.T) {
	b := setup(t)
	c := b.claim("evt_1", 0)
	if err := b.store.Skip(t.Context(), c, "not wanted"); err != nil {
		t.Fatal(err)
	}
	if got := b.grant(c); got.Granted || got.State != ledger.Skipped || got.Error != "not wanted" {
		t.Errorf("got %+v, want skipped with its reason", got)
	}
	done := b.claim("evt_1", 0)
	done.Key = "finance-export:stripe:live:in_1"
	g := b.grant(done)
	b.finish(ledger.Finish{Key: done.Key, Token: g.Token, State: ledger.Done})
	if err := b.store.Skip(t.Context(), done, "too late"); err != nil {
		t.Fatal(err)
	}
	if got := b.grant(done); got.State != ledger.Done {
		t.Errorf("got %+v, want done to stay done", got)
	}
}

func TestRead_TellsAndClaimsNothing(t *testing.T) {
	b := setup(t)
	claim := b.claim("evt_1", 0)
	undo := b.claim("evt_1", 0)
	undo.Key, undo.Kind = "correction-notice:stripe:live:in_1", "correction-notice"
	read := func() map[string]ledger.Grant {
		t.Helper()
		found, err := b.store.Read(t.Context(), []string{claim.Key, undo.Key, "receipt-email:stripe:live:in_2"})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if found := read(); len(found) != 0 {
		t.Errorf("before any claim: %+v", found)
	}
	b.finish(ledger.Finish{Key: claim.Key, Token: b.grant(claim).Token, State: ledger.Done, Result: json.RawMessage(`{"sent": true}`)})
	if found := read(); len(found) != 1 || found[claim.Key].State != ledger.Done || !found[claim.Key].Settled() ||
		found[claim.Key].EventID != "evt_1" || string(found[claim.Key].Result) != `{"sent": true}` {
		t.Errorf("after it was done: %+v", found)
	}
	grant := b.grant(undo)
	if found := read(); found[undo.Key].State != ledger.Claimed || found[undo.Key].Settled() {
		t.Errorf("while it is being undone: %+v", found)
	}
	b.finish(ledger.Finish{Key: undo.Key, Token: grant.Token, State: ledger.Done, Result: json.RawMessage(`{}`), Compensates: claim.Key})
	if found := read(); found[claim.Key].State != ledger.Compensated || found[undo.Key].State != ledger.Done {
		t.Errorf("after it was undone: %+v", found)
	}
	if other := b.claim("evt_2", 0); !b.grant(ledger.Claim{
		Ref:   other.Ref,
		Key:   "receipt-email:stripe:live:in_2",
		Kind:  other.Kind,
		RunID: other.RunID,
		Lease: other.Lease,
	}).Granted {
		t.Error("reading has claimed")
	}
}

func TestStatements(t *testing.T) {
	schematest.CheckStatements(t, schematest.New(t), schematest.OnPurpose{Open: []string{"owed", "uncertain"}})
}
