package rejected

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/pawlhq/pawl/ingress/throttle"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/rejection"
)

// Store stores rejected requests. [rejection.Store] implements it.
type Store interface {
	Keep(ctx context.Context, batch []rejection.Rejection) error
}

// Config configures a [Keeper]. Store and Diagnoser are required.
type Config struct {
	Store     Store
	Diagnoser *Diagnoser
	Log       *slog.Logger
	// PerSecond and Burst limit the stored requests of one source; default 10 and 100. One remote address (an IPv6 /64)
	// has half of these limits, so that an attacker leaves room for a provider with a wrong secret. Requests above the
	// limits are not stored.
	PerSecond float64
	Burst     int
	// Every is the minimum time between two writes; default 500 ms.
	Every time.Duration
	// Trim is how often old requests are deleted while no new requests arrive; default 1 h.
	Trim time.Duration
}

const (
	// queueLength is the maximum number of queued requests. Each has at most [rejection.MaxBody] bytes of body, so the
	// queue has at most 8 MiB.
	queueLength = 128
	// batchLength is the maximum number of requests in one write.
	batchLength = 128
	// writeTimeout is the timeout of one write, also when the process stops.
	writeTimeout = 2 * time.Second
	// sendersRemembered is the maximum number of senders with a token bucket. An attacker with more networks evades the
	// limit per sender.
	sendersRemembered = 2048
	// bodiesRemembered is the maximum number of bodies in [Keeper].signed.
	bodiesRemembered = 2048
)

// Keeper stores rejected requests with their diagnosis in the background, so that no request waits for it. Make a
// Keeper with [NewKeeper] and call [Keeper.Run].
type Keeper struct {
	cfg     Config
	queue   chan rejectedRequest
	dropped atomic.Int64
	// headers maps the name of a source to the headers that are stored.
	headers map[string]webhook.Headers

	perSource *throttle.Buckets[string]
	perSender *throttle.Buckets[sender]

	// signed holds the bodies of stored requests that are signed with one of pawl's secrets. Only Run uses it.
	signed *simplelru.LRU[signedBody, struct{}]
}

// signedBody identifies a body by the source and the hash.
type signedBody struct {
	source string
	hash   [sha256.Size]byte
}

// sender is a network that sends to a source.
type sender struct {
	source  string
	network netip.Addr
}

type rejectedRequest struct {
	source, remote string
	request        *webhook.Request
	err            *webhook.Error
	// size is the length of the whole body. The request contains only the first [rejection.MaxBody] bytes.
	size int64
}

// NewKeeper returns a keeper.
func NewKeeper(cfg Config) *Keeper {
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	cfg.PerSecond, cfg.Burst = cmp.Or(cfg.PerSecond, 10), cmp.Or(cfg.Burst, 100)
	cfg.Every, cfg.Trim = cmp.Or(cfg.Every, 500*time.Millisecond), cmp.Or(cfg.Trim, time.Hour)
	signed, _ := simplelru.NewLRU[signedBody, struct{}](bodiesRemembered, nil) // never fails, the size is positive
	k := &Keeper{
		cfg: cfg, queue: make(chan rejectedRequest, queueLength), headers: map[string]webhook.Headers{}, signed: signed,
		perSource: throttle.New[string](throttle.Rate{PerSecond: cfg.PerSecond, Burst: cfg.Burst}, sendersRemembered),
		perSender: throttle.New[sender](throttle.Rate{PerSecond: cfg.PerSecond / 2, Burst: cfg.Burst / 2},
			sendersRemembered),
	}
	for source, p := range cfg.Diagnoser.probes {
		k.headers[source] = webhook.HeadersOf(p.Provider, p.verifier)
	}
	return k
}

// Offer queues a copy of a rejected request without waiting. It drops the request if the queue is full, so that
// rejections never slow down valid deliveries.
func (k *Keeper) Offer(source string, r *webhook.Request, err *webhook.Error, remoteAddr string) {
	addr, _ := netip.ParseAddr(remoteAddr) // all requests without an address have the zero address
	from := sender{source, throttle.Network(addr)}
	// The limit per sender is checked first, so that one sender cannot use up the tokens of the source.
	if !k.perSender.Allow(from, r.ReceivedAt) || !k.perSource.Allow(source, r.ReceivedAt) {
		k.dropped.Add(1)
		return
	}
	body := r.Body
	if len(body) > rejection.MaxBody {
		body = body[:rejection.MaxBody] // the rest is not stored; a partial body cannot be diagnosed
	}
	held := *r
	held.Header, held.Body = r.Header.Clone(), bytes.Clone(body)
	select {
	case k.queue <- rejectedRequest{source, remoteAddr, &held, err, int64(len(r.Body))}:
	default:
		k.dropped.Add(1)
	}
}

// Run writes offered requests until ctx ends. It then writes the rest of the queue.
func (k *Keeper) Run(ctx context.Context) {
	trim := time.NewTicker(k.cfg.Trim)
	defer trim.Stop()
	for {
		select {
		case <-ctx.Done():
			for len(k.queue) > 0 {
				k.write(ctx, k.collect(<-k.queue))
			}
			return
		case first := <-k.queue:
			k.write(ctx, k.collect(first))
		case <-trim.C:
			k.write(ctx, nil) // a write without requests only deletes old requests
		}
		pause := time.NewTimer(k.cfg.Every)
		select {
		case <-ctx.Done():
			pause.Stop()
		case <-pause.C:
		}
	}
}

// collect returns first and the requests in the queue.
func (k *Keeper) collect(first rejectedRequest) []rejectedRequest {
	batch := []rejectedRequest{first}
	for len(batch) < batchLength {
		select {
		case next := <-k.queue:
			batch = append(batch, next)
		default:
			return batch
		}
	}
	return batch
}

// write diagnoses a batch and stores it. It drops a batch that cannot be stored, so that rejections do not fill the
// memory while the database is down.
func (k *Keeper) write(ctx context.Context, batch []rejectedRequest) {
	rows := make([]rejection.Rejection, 0, len(batch))
	for _, f := range batch {
		if row := k.row(f); !row.Likely || k.first(row) {
			rows = append(rows, row)
		}
	}
	// The batch is written even if the process stops meanwhile.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	if err := k.cfg.Store.Keep(ctx, rows); err != nil {
		k.cfg.Log.Warn("refused requests not stored", "count", len(rows), "error", err)
		k.signed.Purge()
		return
	}
	if n := k.dropped.Swap(0); n > 0 {
		k.cfg.Log.Info("more requests refused than are stored", "count", n)
	}
}

// first reports whether row is the first request with its body. row has a valid signature. Without this check, replays
// of one captured request would displace all other stored requests of the source.
func (k *Keeper) first(row rejection.Rejection) bool {
	body := signedBody{row.Source, sha256.Sum256(row.Body)}
	_, known := k.signed.Get(body)
	k.signed.Add(body, struct{}{})
	return !known
}

func (k *Keeper) row(f rejectedRequest) rejection.Rejection {
	d := k.diagnose(f)
	headers, query := k.headers[f.source], ""
	if headers.Query {
		query = f.request.Query()
	}
	return rejection.Rejection{
		Source: f.source, ReceivedAt: f.request.ReceivedAt, Class: string(f.err.Class), Detail: f.err.Detail,
		Diagnosis: d.Findings, Likely: d.Likely, RemoteAddr: f.remote, Method: f.request.Method, Query: query,
		Header: headers.OfRefusal(f.request.Header), Body: f.request.Body, BodySize: f.size, Truncated: f.incomplete(),
	}
}

// incomplete reports whether a part of the body is missing.
func (f rejectedRequest) incomplete() bool {
	return f.err.Class.Incomplete() || f.size > int64(len(f.request.Body))
}

// diagnose recovers from panics, because it reads unverified bytes.
func (k *Keeper) diagnose(f rejectedRequest) (d Diagnosis) {
	if f.incomplete() {
		return d // the signature of a partial body fits no secret
	}
	defer func() {
		if p := recover(); p != nil {
			k.cfg.Log.Error("diagnosis panicked", "source", f.source, "error", fmt.Sprintf("%T", p))
			d = Diagnosis{}
		}
	}()
	return k.cfg.Diagnoser.Diagnose(f.source, f.request, f.err)
}
