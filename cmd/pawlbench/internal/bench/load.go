package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// eventIDLength is the length of Stripe's event IDs: evt_ and 24 characters.
const eventIDLength = len("evt_") + 24

// offeredBody is the body of the sent events: an invoice.paid of about 1.2 KB with the fields that pawl reads. Its %s
// is the event's ID.
const offeredBody = `{"id":"%s","object":"event","api_version":"2025-03-31.basil","created":1766000000,"data":{"object":{"id":"in_1RbenchmarkInvoice0000","object":"invoice","amount_due":4900,"amount_paid":4900,"billing_reason":"subscription_cycle","collection_method":"charge_automatically","created":1766000000,"currency":"usd","customer":"cus_Rbenchmark0000","customer_email":"benchmark@example.com","lines":{"object":"list","data":[{"id":"il_1RbenchmarkLine0000000","object":"line_item","amount":4900,"currency":"usd","description":"1 x pro","period":{"start":1766000000,"end":1768592000},"parent":{"type":"subscription_item_details","subscription_item_details":{"subscription":"sub_1Rbenchmark0000000000","subscription_item":"si_Rbenchmark0000"}},"pricing":{"type":"price_details","price_details":{"price":"price_pro","product":"prod_pro"},"unit_amount_decimal":"4900"},"quantity":1}],"has_more":false},"livemode":false,"metadata":{},"number":"PAWL-0001","parent":{"type":"subscription_details","subscription_details":{"metadata":{"account":"benchmark","plan":"pro"},"subscription":"sub_1Rbenchmark0000000000"}},"status":"paid","subtotal":4900,"total":4900}},"livemode":false,"pending_webhooks":1,"request":{"id":null,"idempotency_key":null},"type":"invoice.paid"}`

// request is the bytes of one delivery, made once per connection and changed in place. Signing takes two microseconds
// and creates no garbage, so that the client hardly affects the measurement.
type request struct {
	bytes                []byte
	id, stamp, mac, body []byte // parts of bytes
	hash                 hash.Hash
	sum                  []byte
	count                uint64
	prefix               uint64
}

func newRequest(host, secret string) *request {
	body := fmt.Sprintf(offeredBody, "evt_000000000000000000000000")
	now := strconv.FormatInt(time.Now().Unix(), 10)
	head := "POST /hooks/stripe HTTP/1.1\r\nHost: " + host +
		"\r\nUser-Agent: Stripe/1.0 (+https://stripe.com/docs/webhooks)\r\nAccept: */*; q=0.5, application/xml" +
		"\r\nCache-Control: no-cache\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: " + strconv.Itoa(len(body)) +
		"\r\nStripe-Signature: t="
	r := &request{hash: hmac.New(sha256.New, []byte(secret)), prefix: rand.Uint64()}
	signature := now + ",v1=" + string(bytes.Repeat([]byte("0"), 2*sha256.Size))
	r.bytes = []byte(head + signature + "\r\n\r\n" + body)
	r.stamp = r.bytes[len(head) : len(head)+len(now)]
	r.mac = r.bytes[len(head)+len(signature)-2*sha256.Size:][:2*sha256.Size]
	r.body = r.bytes[len(r.bytes)-len(body):]
	at := bytes.Index(r.body, []byte("evt_"))
	r.id = r.body[at+len("evt_") : at+eventIDLength]
	return r
}

// next changes the request to a delivery of a new event with a new signature.
func (r *request) next() {
	r.count++
	var number [12]byte
	for i := range 6 {
		number[i] = byte(r.prefix >> (8 * i))
		number[6+i] = byte(r.count >> (8 * i))
	}
	hex.Encode(r.id, number[:])
	copy(r.stamp, strconv.FormatInt(time.Now().Unix(), 10))
	r.hash.Reset()
	r.hash.Write(r.stamp)
	r.hash.Write([]byte{'.'})
	r.hash.Write(r.body)
	r.sum = r.hash.Sum(r.sum[:0])
	hex.Encode(r.mac, r.sum)
}

// connection is a keep-alive HTTP/1.1 connection with only the functions that the load needs.
type connection struct {
	*request
	// forged is set if the signatures do not fit the server's secret.
	forged bool
	conn   net.Conn
	reader *bufio.Reader
}

func dial(ctx context.Context, addr, secret string) (*connection, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &connection{request: newRequest(addr, secret), conn: conn, reader: bufio.NewReader(conn)}, nil
}

// errShed is the error for a 503. The delivery is not counted.
var errShed = errors.New("answered 503")

// deliver sends the request prepared by [connection.next], and reads the answer. The answer must be a 2xx, or a 401
// for a forged delivery. deliver returns errShed for a 503; the connection can be used afterwards.
func (c *connection) deliver() error {
	if err := c.conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return err
	}
	if _, err := c.conn.Write(c.bytes); err != nil {
		return err
	}
	status, length := 0, 0
	for first := true; ; first = false {
		line, err := c.reader.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("read the answer: %w", err)
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		if first {
			if len(line) < len("HTTP/1.1 200") {
				return fmt.Errorf("not an HTTP answer: %q", line)
			}
			status, err = strconv.Atoi(string(line[9:12]))
		} else if name, value, _ := bytes.Cut(line, []byte(":")); bytes.EqualFold(name, []byte("Content-Length")) {
			length, err = strconv.Atoi(string(bytes.TrimSpace(value)))
		}
		if err != nil {
			return fmt.Errorf("read the answer: %w", err)
		}
	}
	if _, err := c.reader.Discard(length); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch {
	case status == http.StatusServiceUnavailable:
		return errShed
	case c.forged && status == http.StatusUnauthorized, !c.forged &&
		(status == http.StatusAccepted || status == http.StatusOK):
		return nil
	}
	return fmt.Errorf("answered %d", status)
}

// Measured is the result of a load.
type Measured struct {
	RPS float64 `json:"rps"`
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	// shed counts the deliveries that got a 503.
	shed int
}

func (m *Measured) figures() []*float64 { return []*float64{&m.RPS, &m.P50, &m.P99} }

func (m Measured) String() string {
	text := fmt.Sprintf("%7.0f/s, p50 %.2f ms, p99 %.2f ms", m.RPS, m.P50, m.P99)
	if m.shed > 0 {
		text += fmt.Sprintf(", %d answered 503", m.shed)
	}
	return text
}

// log records the deliveries of one connection.
type log struct {
	took []time.Duration
	shed int
}

// deliver sends one delivery. When the response arrives, deliver records the time since start.
func (l *log) deliver(c *connection, start time.Time) error {
	err := c.deliver()
	switch {
	case errors.Is(err, errShed):
		l.shed++
	case err != nil:
		return err
	default:
		l.took = append(l.took, time.Since(start))
	}
	return nil
}

// offer delivers over n connections, each as fast as its answers come, until length has passed. If duplicates is set,
// every second delivery repeats the one before. Any answer but a 2xx or a 503 is an error.
func offer(ctx context.Context, addr, secret string, n int, duplicates bool, length time.Duration) (Measured, error) {
	return onEach(ctx, addr, secret, n, func(c *connection, l *log, begin time.Time) error {
		for i := 0; time.Since(begin) < length && ctx.Err() == nil; i++ {
			if !duplicates || i%2 == 0 {
				c.next()
			}
			if err := l.deliver(c, time.Now()); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
}

// rateConnections is the number of connections for a fixed rate, so that a slow answer does not delay the next
// deliveries.
const rateConnections = 64

// offerRate delivers perSecond new events each second for length, signed with a wrong secret if forged is set. Latency
// counts from the scheduled time of a delivery, so that it includes the waiting time while the server stalls.
func offerRate(ctx context.Context, addr, secret string, perSecond int, length time.Duration, forged bool) (Measured,
	error) {
	if forged {
		secret += " is not this"
	}
	due := make(chan time.Time, perSecond*int(length/time.Second+1))
	go func() {
		defer close(due)
		every := time.Second / time.Duration(perSecond)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		begin := time.Now()
		for at := begin; at.Sub(begin) < length && ctx.Err() == nil; {
			<-ticker.C
			for ; !at.After(time.Now()); at = at.Add(every) { // a ticker drops ticks
				due <- at
			}
		}
	}()
	return onEach(ctx, addr, secret, rateConnections, func(c *connection, l *log, _ time.Time) error {
		c.forged = forged
		for at := range due {
			c.next()
			if err := l.deliver(c, at); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
}

// onEach runs work on n connections at once and combines the results.
func onEach(ctx context.Context, addr, secret string, n int, work func(*connection, *log, time.Time) error) (Measured,
	error) {
	connections := make([]*connection, n)
	for i := range connections {
		c, err := dial(ctx, addr, secret)
		if err != nil {
			return Measured{}, err
		}
		defer func() { _ = c.conn.Close() }()
		connections[i] = c
	}
	var wg sync.WaitGroup
	logs, errs := make([]log, n), make([]error, n)
	begin := time.Now()
	for i, c := range connections {
		wg.Go(func() { errs[i] = work(c, &logs[i], begin) })
	}
	wg.Wait()
	elapsed := time.Since(begin)
	if err := errors.Join(errs...); err != nil {
		return Measured{}, err
	}
	var all []time.Duration
	shed := 0
	for _, l := range logs {
		all, shed = append(all, l.took...), shed+l.shed
	}
	slices.Sort(all)
	return Measured{RPS: float64(len(all)) / elapsed.Seconds(), P50: percentile(all, 0.5), P99: percentile(all, 0.99),
		shed: shed}, nil
}
