package activities

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Consumer takes relayed events over HTTP: the provider's bytes as they came, signed by us as
// Standard Webhooks. Any 2xx means that it has the event. It gets an event at least once, and tells a
// repeat by webhook-id, which stays the same from try to try, an operator's included.
type Consumer struct {
	URL string
	// Keys are the secrets as decoded. Each signs, so that one can be replaced while deliveries go on.
	Keys     [][]byte
	Policy   effect.Policy
	Settings SinkSettings
}

// Consumers relays events to consumers.
type Consumers struct {
	Effects  *effect.Runner
	Receipts *receipt.Store
	// ByName holds every configured consumer.
	ByName map[string]Consumer
	// BySource lists the consumers of each source.
	BySource map[string][]string
	Client   *http.Client
	Now      func() time.Time
}

// LoadRelayInput names the receipt to relay.
type LoadRelayInput struct{ event.Ref }

// LoadRelayResult says where an event goes.
type LoadRelayResult struct {
	Consumers []string
	// Code and Reason, when set, say why the run parks.
	Code   string `json:",omitempty"`
	Reason string `json:",omitempty"`
	// Sinks says how to try each delivery, under "consumers:" and the consumer's name.
	Sinks map[string]SinkSettings `json:",omitempty"`
}

// CodeNoConsumer is the code of an event that goes nowhere.
const CodeNoConsumer = "no_consumer"

// LoadRelay says which consumers get an event: those of its source, as configured now. It changes
// nothing.
func (c *Consumers) LoadRelay(ctx context.Context, in LoadRelayInput) (LoadRelayResult, error) {
	r, err := c.Receipts.Get(ctx, in.ReceiptID)
	if err != nil {
		return LoadRelayResult{}, fmt.Errorf("load receipt %s: %w", in.ReceiptID, err)
	}
	if err := checkRef(in.Ref, r); err != nil {
		return LoadRelayResult{}, err
	}
	result := LoadRelayResult{Sinks: map[string]SinkSettings{}}
	if result.Consumers = c.of(r, result.Sinks); len(result.Consumers) == 0 {
		result.Code = CodeNoConsumer
		result.Reason = fmt.Sprintf("no flow is written for %s %q, and source %s relays to nobody; set sources.%[3]s.relay", r.Provider, r.Type, r.Source)
	}
	return result, nil
}

// of returns the consumers of a receipt's source, and puts into settings how to try their deliveries.
func (c *Consumers) of(r receipt.Receipt, settings map[string]SinkSettings) []string {
	names := c.BySource[r.Source]
	for _, name := range names {
		settings["consumers:"+name] = c.ByName[name].Settings
	}
	return slices.Clone(names)
}

// Delivery is one event for one consumer. The event is that of the effect's receipt.
type Delivery struct{ Consumer string }

// relayed is what the ledger keeps of a delivery.
type relayed struct{ Status int }

// RelayEvent posts an event's bytes to one consumer. They are read from the receipt here and go
// nowhere else. An answer that is no success and cannot pass (3xx, and 4xx except 408, 409, 425 and 429) is a fault.
func (c *Consumers) RelayEvent(ctx context.Context, in EffectInput[Delivery]) (effect.Result, error) {
	consumer, known := c.ByName[in.For.Consumer]
	policy := consumer.Policy
	if !known {
		policy = effect.Policy{Timeout: time.Second} // to record the fault
	}
	return c.Effects.Do(ctx, in.Effect, policy, nil, func(ctx context.Context, a *effect.Attempt) (any, error) {
		body, err := c.held(ctx, in)
		if err != nil {
			return nil, err
		}
		r, err := c.Receipts.Get(ctx, in.Effect.ReceiptID)
		if err != nil {
			return nil, effect.Infrastructure(err)
		}
		return c.post(ctx, consumer, in.Effect.Key, a.IdempotencyKey, r, body)
	})
}

// held returns the bytes that a consumer gets. A missing body or an unknown consumer is a fault.
func (c *Consumers) held(ctx context.Context, in EffectInput[Delivery]) (receipt.Body, error) {
	if _, known := c.ByName[in.For.Consumer]; !known {
		return receipt.Body{}, effect.Fault("consumer %s is not configured", in.For.Consumer)
	}
	body, err := c.Receipts.Body(ctx, in.Effect.ReceiptID)
	if errors.Is(err, schema.ErrNotFound) {
		return body, effect.Fault("the receipt's body is no longer held")
	}
	return body, effect.Infrastructure(err)
}

// post makes one request: under the effect's key, which tells the consumer the message, and the attempt's, which is
// another one once an operator has had it sent again.
func (c *Consumers) post(ctx context.Context, consumer Consumer, effectKey, attemptKey string, r receipt.Receipt,
	body receipt.Body) (any, error) {
	kept, err := body.Header()
	if err != nil {
		return nil, effect.Infrastructure(err)
	}
	header := headerOf(headerText(attemptKey), "")
	header.Set("Content-Type", cmp.Or(kept.Get("Content-Type"), "application/json"))
	for name, value := range map[string]string{
		"Pawl-Provider": r.Provider, "Pawl-Source": r.Source, "Pawl-Mode": r.Mode, "Pawl-Account": r.Account,
		"Pawl-Event-Id": cmp.Or(r.RelayOf, r.EventID), "Pawl-Event-Type": r.Type, "Pawl-Receipt": r.ID,
		"X-Correlation-Id": r.CorrelationID, "Pawl-Scheme": kept.Get("Pawl-Scheme"),
	} {
		if value != "" {
			header.Set(name, headerText(value))
		}
	}
	SignStandard(header, consumer.Keys, webhookID(effectKey), c.Now(), body.Bytes)
	got, err := call(ctx, c.Client, http.MethodPost, consumer.URL, header, body.Bytes)
	if got == nil {
		return nil, err
	}
	_, said := got.told() // the status says it all; the body is for the reason
	if failure := effect.FromStatus(got.Response, said, c.Now()); failure != nil {
		return nil, failure
	}
	return relayed{Status: got.StatusCode}, nil
}

// webhookID is the webhook-id of a delivery: stable from try to try, different for each consumer. It
// is a hash because the specification keeps dots out of IDs, and keys hold the providers' own.
func webhookID(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "pawl_" + hex.EncodeToString(sum[:16])
}

// SignStandard sets the headers of Standard Webhooks 1.0.0: the signature covers ID, time and body. The
// time is that of the try, so that a late one passes the receiver's clock. Each key signs: the header holds a list.
func SignStandard(h http.Header, keys [][]byte, id string, at time.Time, body []byte) {
	stamp := strconv.FormatInt(at.Unix(), 10)
	var signatures []string
	for _, key := range keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + stamp + "."))
		mac.Write(body)
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	h.Set("webhook-id", id)
	h.Set("webhook-timestamp", stamp)
	h.Set("webhook-signature", strings.Join(signatures, " "))
}

// headerText returns s where a header can hold it, else percent-encoded: IDs and types come from
// outside and may hold anything.
func headerText(s string) string {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == '%' {
			return url.PathEscape(s)
		}
	}
	return s
}
