package effect

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/pawlhq/pawl/schema/ledger"
)

// claiming is the timeout of a claim. A claim waits up to a second if another run has claimed the key.
const claiming = 2 * time.Second

// longestIdempotencyKey is the maximum length in bytes that APIs accept (docs.stripe.com/api/idempotent_requests). They
// answer 400 to a longer key.
const longestIdempotencyKey = 255

// IdempotencyKey returns the key to send to the sink. An operator starts a new generation after an uncertain or refused
// outcome. The key of a new generation has a suffix, so that the sink treats the request as a new one. If the key is
// too long, the result is the kind and the hash of the key.
func IdempotencyKey(key string, generation int) string {
	if generation > 1 {
		key += ":g" + strconv.Itoa(generation)
	}
	if len(key) <= longestIdempotencyKey {
		return key
	}
	kind, _, _ := strings.Cut(key, ":")
	sum := sha256.Sum256([]byte(key))
	return kind + ":" + hex.EncodeToString(sum[:])
}

// ClaimOf returns the ledger claim for a call by the current run. It must be called in an activity.
func ClaimOf(ctx context.Context, c Call, lease time.Duration) ledger.Claim {
	run := activity.GetInfo(ctx).WorkflowExecution
	return ledger.Claim{Key: c.Key, Kind: c.Kind, Round: c.Round, Ref: c.Ref, RunID: run.RunID, Lease: lease}
}

// claim claims the key. If another run has claimed it, claim waits for up to a second: two events for one fact often
// arrive together, and the first run finishes within milliseconds.
func (r *Runner) claim(ctx context.Context, c Call, p Policy, request []byte) (ledger.Grant, error) {
	claim := ClaimOf(ctx, c, p.lease())
	claim.Exclusive, claim.Request, claim.Unmarked = p.Exclusive, request, !p.Marks
	const patience, longest = time.Second, 200 * time.Millisecond
	// The limit is a time and not a number of claims, because a claim may be slow and reduces the time for the effect.
	// The delay doubles, so that many waiting runs do not slow down the database.
	pause := 20 * time.Millisecond
	for begin := time.Now(); ; pause = min(2*pause, longest) {
		grant, err := r.Ledger.Claim(ctx, claim)
		if errors.Is(err, ledger.ErrForeign) {
			return ledger.Grant{}, Foreign(c.Ref, err)
		}
		if err != nil {
			return ledger.Grant{}, r.retryLater(ctx, TypeInfrastructure, 0, err, "cannot claim %s", c.Key)
		}
		held := !grant.Granted &&
			(grant.State == ledger.Claimed || grant.State == ledger.Failed && grant.Class == ledger.Transient)
		if !held {
			return grant, nil
		}
		if time.Since(begin) >= patience {
			return ledger.Grant{}, r.retryLater(ctx, TypeNotYet, jitter(time.Second), nil,
				"%s is being executed by another run", c.Key)
		}
		select {
		case <-time.After(jitter(pause)):
		case <-ctx.Done():
			return ledger.Grant{}, ctx.Err()
		}
	}
}

// forgotten returns an error if the sink has forgotten the key of an earlier attempt. The sink could apply another
// attempt twice, so the effect is then uncertain.
func (p Policy) forgotten(g ledger.Grant) error {
	if p.KeyLifetime == 0 || g.Attempt <= 1 || g.Age <= p.KeyLifetime {
		return nil
	}
	return Doubt("the first attempt was at %s and the sink forgets keys after %s: another attempt could repeat the effect",
		g.ClaimedAt.UTC().Format(time.RFC3339), p.KeyLifetime)
}

// Loss describes transactions that the database has lost: it was restored from a backup, or a standby without them was
// promoted. All times are zero if nothing was lost.
type Loss struct {
	// From is when the lost time began, Until when it ended, and Decided when a person decided that pawl continues.
	From, Until, Decided time.Time
}

// check returns an error if the effect of an event that occurred at the time at may have happened in the lost time. It
// returns nil if the sink remembers keys, or if a person has decided to send the effect again after the lost time.
func (l Loss) check(p Policy, g ledger.Grant, at time.Time) error {
	remembers := !p.Marks && (p.KeyLifetime == 0 || time.Since(l.From) <= p.KeyLifetime)
	decided := g.Generation > 1 && !g.ClaimedAt.Before(l.Decided)
	if remembers || decided || !at.Before(l.Until) {
		return nil
	}
	return Doubt("the database lost its transactions between %s and %s: the effect may have happened then",
		l.From.UTC().Format(time.RFC3339), l.Until.UTC().Format(time.RFC3339))
}
