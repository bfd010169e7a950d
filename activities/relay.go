package activities

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"time"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/activities/flow"
	"github.com/pawlhq/pawl/activities/httpcall"
	"github.com/pawlhq/pawl/activities/selection"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Destination is an HTTP endpoint. It receives the events of sources with the provider's unchanged bytes, and pawl's
// own events as CloudEvents. Any 2xx response acknowledges an event. Delivery is at least once. Every attempt has the
// same webhook-id, also if an operator requested it.
type Destination struct {
	Name, URL string
	// Token, if set, is sent as a bearer token.
	Token string
	// Keys are the decoded secrets. pawl signs each request with each of them (Standard Webhooks), so that an operator
	// can replace a secret without downtime.
	Keys [][]byte
	// Events selects pawl's own events by type, by prefix ("billing.*"), or all ("*").
	Events []string
	// Selection selects the events of sources.
	Selection selection.Rule
	// Policy and Settings apply to the events of sources. A pause and the timeout also apply to pawl's own events.
	Policy   effect.Policy
	Settings SinkSettings
}

// Takes reports whether the destination receives pawl's own events of the type kind.
func (d Destination) Takes(kind string) bool {
	return flow.Matches(d.Events, kind)
}

// Destinations relays the events of sources to destinations.
type Destinations struct {
	Effects  *effect.Runner
	Receipts *receipt.Store
	// ByName holds every configured destination.
	ByName map[string]Destination
	// BySource lists the destinations of each source.
	BySource map[string][]string
	// Flows plans the flows of the configuration. It may be nil.
	Flows  Planner
	Client *http.Client
	Now    func() time.Time
}

// Planner plans the flows of the configuration. Package step implements it.
type Planner interface {
	// PlanFlow adds the plan of the flow that handles a receipt.
	PlanFlow(ctx context.Context, r receipt.Receipt, result *LoadRelayResult) error
	// ForecastStep returns the policy of a step, and the reason why it would not be executed.
	ForecastStep(c flow.Call, mode string) (policy effect.Policy, why error)
}

// Reason codes of events without effects.
const (
	// CodeNotSelected: the event has destinations by its source, and none of them selects it.
	CodeNotSelected = "not_selected"
	// CodeFlowFault: the flow cannot be evaluated for the event.
	CodeFlowFault = "flow_fault"
	// CodeFlowCondition: the condition of the flow is false.
	CodeFlowCondition = "flow_condition"
)

// LoadRelayInput names the receipt to relay.
type LoadRelayInput struct{ event.Ref }

// LoadRelayResult lists the destinations of an event.
type LoadRelayResult struct {
	Destinations []string
	// Undecided lists the destinations with a condition that cannot be evaluated.
	Undecided []string `json:",omitempty"`
	// Flow is the plan of the flow that handles the event, or nil. Left is set if the flow does nothing, or if no
	// destination selects an event without a flow.
	Flow *flow.Run `json:",omitempty"`
	Left Left      `json:",omitzero"`
	// Withhold is set if the event occurred before effects began: it is not delivered.
	Withhold bool `json:",omitempty"`
	// Code and Reason, if set, explain why the run parks.
	Code   string `json:",omitempty"`
	Reason string `json:",omitempty"`
	// Sinks configures the attempts of each delivery, under "destinations:" and the destination's name.
	Sinks map[string]SinkSettings `json:",omitempty"`
}

// CodeNoDestination is the reason code of an event without destinations.
const CodeNoDestination = "no_destination"

// rollout is how long the run of a published event without a flow is retried before it parks. A process with a newer
// file has stored the receipt, and workers with the older file can run until the deployment ends.
const rollout = 15 * time.Minute

// LoadRelay returns the destinations of the event's source and the plan of its flow, as configured now. It changes
// nothing. If it fails because another worker may have the flow, Temporal retries it.
func (c *Destinations) LoadRelay(ctx context.Context, in LoadRelayInput) (LoadRelayResult, error) {
	r, result, err := c.loadRelay(ctx, in)
	if result.Code == CodeNoDestination && r.Provider == flow.Pawl && c.Now().Sub(r.ReceivedAt) < rollout {
		return LoadRelayResult{}, fmt.Errorf("no flow of this process selects %q; a worker with a newer file may",
			r.Type)
	}
	return result, err
}

func (c *Destinations) loadRelay(ctx context.Context, in LoadRelayInput) (r receipt.Receipt, result LoadRelayResult,
	err error) {
	if r, err = c.Receipts.Get(ctx, in.ReceiptID); err != nil {
		return r, result, fmt.Errorf("load receipt %s: %w", in.ReceiptID, err)
	}
	if err := checkRef(in.Ref, r); err != nil {
		return r, result, err
	}
	result = LoadRelayResult{Sinks: map[string]SinkSettings{}, Withhold: r.BeforeEffects}
	to, err := c.destinationsOf(ctx, r, result.Sinks)
	if err != nil {
		return r, LoadRelayResult{}, err
	}
	result.Destinations, result.Undecided = to.To, to.Undecided
	if c.Flows != nil {
		if err := c.Flows.PlanFlow(ctx, r, &result); err != nil {
			return r, LoadRelayResult{}, err
		}
	}
	switch {
	case len(result.Destinations) > 0 || result.Flow != nil:
	case len(c.BySource[r.Source]) > 0:
		result.Left = Left{Code: CodeNotSelected, Reason: to.None}
	default:
		result.Code = CodeNoDestination
		result.Reason = fmt.Sprintf("no flow handles %s %q, and source %s is in the sources of no destination: add it to destinations.NAME.sources", r.Provider, r.Type, r.Source)
		if r.Provider == flow.Pawl {
			result.Reason = fmt.Sprintf("no flow selects %q any more: add it to flows.NAME.on.published", r.Type)
		}
	}
	return r, result, nil
}

// destinationsOf returns the destinations that select the event of a receipt, and adds their settings to settings.
func (c *Destinations) destinationsOf(ctx context.Context, r receipt.Receipt,
	settings map[string]SinkSettings) (selection.Choice, error) {
	to, err := selection.Choose(ctx, &selection.Event{Receipts: c.Receipts, Receipt: r}, c.BySource[r.Source],
		func(name string) selection.Rule { return c.ByName[name].Selection })
	for _, name := range to.To {
		settings["destinations:"+name] = c.ByName[name].Settings
	}
	return to, err
}

// Delivery is the delivery of the receipt's event to one destination.
type Delivery struct {
	Destination string
	// Undecided is set if the condition of the destination could not be evaluated when the run loaded the event. The
	// delivery then evaluates it.
	Undecided bool `json:",omitempty"`
}

// relayed is the result of a delivery in the ledger.
type relayed struct{ Status int }

// RelayEvent posts the bytes of an event, which it reads from the receipt, to one destination. A 3xx response is a
// fault, and so is a 4xx response other than 408, 409, 425 and 429.
func (c *Destinations) RelayEvent(ctx context.Context, in EffectInput[Delivery]) (effect.Result, error) {
	destination, known := c.ByName[in.For.Destination]
	policy := destination.Policy
	if !known {
		policy = effect.Policy{Timeout: time.Second} // to record the fault
	}
	return c.Effects.Do(ctx, in.Effect, policy, nil, func(ctx context.Context, a *effect.Attempt) (any, error) {
		r, body, err := c.held(ctx, in)
		if err != nil {
			return nil, err
		}
		return c.post(ctx, destination, in.Effect.Key, a.IdempotencyKey, r, body)
	})
}

// held returns the receipt and the bytes to deliver. A missing payload, an unknown destination or a condition that
// cannot be evaluated is a fault.
func (c *Destinations) held(ctx context.Context, in EffectInput[Delivery]) (r receipt.Receipt, body receipt.Body,
	err error) {
	to, known := c.ByName[in.For.Destination]
	if !known {
		return r, body, effect.Fault("destination %s is not configured", in.For.Destination)
	}
	r, body, err = c.Receipts.Load(ctx, in.Effect.ReceiptID)
	if err != nil {
		return r, body, effect.Infrastructure(err)
	}
	if body.Bytes == nil {
		return r, body, effect.Fault("the payload was deleted, by retention.payloads or by pawl forget: skip the delivery")
	}
	if !in.For.Undecided {
		return r, body, nil
	}
	e := &selection.Event{Receipts: c.Receipts, Receipt: r}
	return r, body, to.Selection.Require(ctx, e, in.For.Destination)
}

// post makes one request. The webhook-id is derived from the key of the effect, so it is the same in every attempt.
// attemptKey changes if an operator sends the message again.
func (c *Destinations) post(ctx context.Context, destination Destination, effectKey, attemptKey string,
	r receipt.Receipt, body receipt.Body) (any, error) {
	kept, err := body.Header()
	if err != nil {
		return nil, effect.Infrastructure(err)
	}
	header := httpcall.Header(httpcall.HeaderText(attemptKey), destination.Token)
	header.Set("Content-Type", cmp.Or(kept.Get("Content-Type"), "application/json"))
	for name, value := range map[string]string{
		"Pawl-Provider": r.Provider, "Pawl-Source": r.Source, "Pawl-Mode": r.Mode, "Pawl-Account": r.Account,
		"Pawl-Event-Id": cmp.Or(r.RelayOf, r.EventID), "Pawl-Event-Type": r.Type, "Pawl-Object": r.ObjectID,
		"Pawl-Occurred-At": occurredAt(r), "Pawl-Receipt": r.ID,
		"X-Correlation-Id": r.CorrelationID, "Pawl-Scheme": kept.Get("Pawl-Scheme"),
	} {
		if value != "" {
			header.Set(name, httpcall.HeaderText(value))
		}
	}
	if r.Replayed {
		header.Set("Pawl-Suspected", "replay")
	}
	httpcall.SignStandard(header, destination.Keys, webhookID(effectKey), c.Now(), body.Bytes)
	got, err := httpcall.Do(ctx, c.Client, http.MethodPost, destination.URL, header, body.Bytes)
	if got == nil {
		return nil, err
	}
	_, detail := got.Problem()
	if failure := effect.FromStatus(got.Response, detail, c.Now()); failure != nil {
		return nil, failure
	}
	return relayed{Status: got.StatusCode}, nil
}

// occurredAt returns the provider's time of an event, or "".
func occurredAt(r receipt.Receipt) string {
	if r.OccurredAt == nil {
		return ""
	}
	return r.OccurredAt.UTC().Format(time.RFC3339Nano)
}

// webhookID returns the webhook-id of a delivery. It is the same for every attempt and different for each destination.
// It is a hash of the key, because a webhook-id must not contain dots and a key may contain some.
func webhookID(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "pawl_" + hex.EncodeToString(sum[:16])
}
