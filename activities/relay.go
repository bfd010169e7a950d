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

// Consumer receives relayed events over HTTP: the provider's bytes unchanged, signed by pawl as Standard Webhooks.
// Any 2xx response acknowledges the event. Delivery is at least once. A repeat, even one requested by an operator,
// has the same webhook-id.
type Consumer struct {
	URL string
	// Keys are the decoded secrets. Each of them signs, so that a secret can be replaced without downtime.
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

// LoadRelayResult lists the consumers of an event.
type LoadRelayResult struct {
	Consumers []string
	// Withhold is set if the event occurred before effects began: it is not delivered.
	Withhold bool `json:",omitempty"`
	// Code and Reason, if set, explain why the run parks.
	Code   string `json:",omitempty"`
	Reason string `json:",omitempty"`
	// Sinks configures the attempts of each delivery, under "consumers:" and the consumer's name.
	Sinks map[string]SinkSettings `json:",omitempty"`
}

// CodeNoConsumer is the reason code of an event without consumers.
const CodeNoConsumer = "no_consumer"

// LoadRelay returns the consumers of the event's source, as configured now. It changes nothing.
func (c *Consumers) LoadRelay(ctx context.Context, in LoadRelayInput) (LoadRelayResult, error) {
	r, err := c.Receipts.Get(ctx, in.ReceiptID)
	if err != nil {
		return LoadRelayResult{}, fmt.Errorf("load receipt %s: %w", in.ReceiptID, err)
	}
	if err := checkRef(in.Ref, r); err != nil {
		return LoadRelayResult{}, err
	}
	result := LoadRelayResult{Sinks: map[string]SinkSettings{}, Withhold: r.BeforeEffects}
	if result.Consumers = c.consumersOf(r, result.Sinks); len(result.Consumers) == 0 {
		result.Code = CodeNoConsumer
		result.Reason = fmt.Sprintf("no flow handles %s %q, and source %s relays it to no consumer: set sources.%[3]s.relay", r.Provider, r.Type, r.Source)
	}
	return result, nil
}

// consumersOf returns the consumers of a receipt's source and adds their settings to settings.
func (c *Consumers) consumersOf(r receipt.Receipt, settings map[string]SinkSettings) []string {
	names := c.BySource[r.Source]
	for _, name := range names {
		settings["consumers:"+name] = c.ByName[name].Settings
	}
	return slices.Clone(names)
}

// Delivery is the delivery of the receipt's event to one consumer.
type Delivery struct{ Consumer string }

// relayed is the ledger's record of a delivery.
type relayed struct{ Status int }

// RelayEvent posts an event's bytes to one consumer. It reads them from the receipt. A response that is neither a
// success nor transient (3xx, and 4xx except 408, 409, 425 and 429) is a fault.
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

// held returns the bytes to deliver. A missing payload or an unknown consumer is a fault.
func (c *Consumers) held(ctx context.Context, in EffectInput[Delivery]) (receipt.Body, error) {
	if _, known := c.ByName[in.For.Consumer]; !known {
		return receipt.Body{}, effect.Fault("consumer %s is not configured", in.For.Consumer)
	}
	body, err := c.Receipts.Body(ctx, in.Effect.ReceiptID)
	if errors.Is(err, schema.ErrNotFound) {
		return body, effect.Fault("the payload was deleted")
	}
	return body, effect.Infrastructure(err)
}

// post makes one request. The key of the effect identifies the message to the consumer. The key of the attempt
// changes if an operator sends the message again.
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
	if r.Replayed {
		header.Set("Pawl-Suspected", "replay")
	}
	SignStandard(header, consumer.Keys, webhookID(effectKey), c.Now(), body.Bytes)
	got, err := call(ctx, c.Client, http.MethodPost, consumer.URL, header, body.Bytes)
	if got == nil {
		return nil, err
	}
	_, detail := got.problem()
	if failure := effect.FromStatus(got.Response, detail, c.Now()); failure != nil {
		return nil, failure
	}
	return relayed{Status: got.StatusCode}, nil
}

// webhookID returns the webhook-id of a delivery. It is the same for every attempt and different for each consumer.
// It is a hash because IDs must not contain dots, and keys contain the IDs of providers.
func webhookID(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "pawl_" + hex.EncodeToString(sum[:16])
}

// SignStandard sets the headers of Standard Webhooks 1.0.0. The signature covers ID, time and body. The time is the
// time of the attempt, so that a late attempt passes the receiver's clock check. The header lists one signature per
// key.
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

// headerText returns s if it is a valid header value, and the percent-encoded s otherwise. IDs and types come from
// outside and may contain any byte.
func headerText(s string) string {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == '%' {
			return url.PathEscape(s)
		}
	}
	return s
}
