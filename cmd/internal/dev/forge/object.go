package forge

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"time"
)

// stripeID matches the IDs of objects and events. Prices and products belong to the shop, not to the customer.
var stripeID = regexp.MustCompile(`\b(?:evt|cus|sub|si|in|il|inpay|ch|pi|re|dp|txn|cs|issfr|cn|req)_[0-9A-Za-z]+`)

// object is a JSON object of Stripe.
type object = map[string]any

// emitter makes the events that Stripe sends about its objects.
type emitter struct {
	params Params
	now    time.Time
	events []Event
	err    error

	token string
	named map[string]string // original IDs to published IDs
	told  map[string]object // the last published state of each object, by original ID
}

// Token is part of every ID of the customer, and of no other ID.
func (m *emitter) Token() string { return m.token }

// At sets the time of the next events.
func (m *emitter) At(now time.Time) { m.now = now.Truncate(time.Second) }

// Events returns the events since the last call, in order.
func (m *emitter) Events() ([]Event, error) {
	events := m.events
	m.events = nil
	return events, m.err
}

func (m *emitter) basil() bool { return data{Params: m.params.WithDefaults()}.Basil() }

// make returns the object of an event of this type, with default values.
func (m *emitter) make(eventType, seed string) object { return m.makeOf(m.params, eventType, seed) }

func (m *emitter) makeOf(p Params, eventType, seed string) object {
	e := m.event(p, eventType, seed)
	made, _ := e["data"].(object)["object"].(object)
	return made
}

// id returns the ID of the object of an event of this type.
func (m *emitter) id(eventType, seed string) string {
	id, _ := m.make(eventType, seed)["id"].(string)
	return id
}

func (m *emitter) event(p Params, eventType, seed string) object {
	p.Type, p.Seed, p.At, p.EventID = eventType, seed, m.now, ""
	made, err := New(p, "")
	var body object
	if err == nil {
		err = json.Unmarshal(made.Body, &body)
	}
	if err != nil {
		m.err = errors.Join(m.err, err)
		return object{"data": object{"object": object{}}}
	}
	return body
}

// emit makes an event with the present state of an object.
func (m *emitter) emit(eventType string, o object) {
	body := m.event(m.params, eventType, "emit")
	shown := clone(o)
	id, _ := shown["id"].(string)
	about := object{"object": shown}
	if before := m.told[id]; eventType == "customer.subscription.updated" || eventType == "charge.dispute.updated" ||
		eventType == "refund.updated" {
		about["previous_attributes"] = differing(before, shown)
	}
	m.told[id] = shown
	body["data"] = about
	eventID, _ := body["id"].(string)
	text := m.render(body)
	m.events = append(m.events, Event{ID: m.name(eventID), Type: eventType, Account: m.params.ConnectedAccount,
		ContentType: "application/json", Body: text})
}

// emitWith makes an event about an object for which the provider stores one more field than it sends.
func (m *emitter) emitWith(eventType string, o object, field string, part any) {
	m.emit(eventType, o)
	sent := &m.events[len(m.events)-1]
	var whole object
	m.err = errors.Join(m.err, json.Unmarshal(sent.Body, &whole))
	whole["data"].(object)["object"].(object)[field] = part
	sent.Whole = m.render(whole)
}

// render encodes an event with published IDs.
func (m *emitter) render(body object) []byte {
	text, err := json.Marshal(body)
	m.err = errors.Join(m.err, err)
	return stripeID.ReplaceAllFunc(text, func(id []byte) []byte { return []byte(m.name(string(id))) })
}

// differing returns the values of before that have changed: it compares nested objects by value and arrays as a whole.
func differing(before, now object) object {
	out := object{}
	for name := range now {
		if _, was := before[name]; !was {
			out[name] = nil
		}
	}
	for name, was := range before {
		is := now[name]
		if reflect.DeepEqual(was, is) {
			continue
		}
		inner, nested := was.(object)
		after, still := is.(object)
		if out[name] = was; nested && still {
			out[name] = differing(inner, after)
		}
	}
	return out
}

// clone copies an object deeply, as JSON.
func clone(o object) object {
	text, err := json.Marshal(o)
	var copied object
	if err == nil {
		err = json.Unmarshal(text, &copied)
	}
	if err != nil {
		panic("forge: " + err.Error()) // it was decoded from JSON
	}
	return copied
}

// whole returns a number that JSON has decoded as a float.
func whole(v any) int64 {
	switch n := v.(type) {
	case float64:
		return int64(n)
	case int64:
		return n
	case int:
		return int64(n)
	}
	return 0
}

// name returns the published ID for an original ID.
func (m *emitter) name(id string) string {
	if m.named[id] == "" {
		kind, _, _ := strings.Cut(id, "_")
		m.named[id] = fmt.Sprintf("%s_%s%04d", kind, m.token, len(m.named)+1)
	}
	return m.named[id]
}
