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

// stripeID finds the IDs of objects and events. Prices and products are the shop's, not the customer's.
var stripeID = regexp.MustCompile(`\b(?:evt|cus|sub|si|in|il|inpay|ch|pi|re|dp|txn|cs|issfr|cn|req)_[0-9A-Za-z]+`)

// object is a JSON object of Stripe's.
type object = map[string]any

// emitter makes the events that Stripe sends about its objects.
type emitter struct {
	params Params
	now    time.Time
	events []Event
	err    error

	token string
	named map[string]string // the IDs as they are told, by those that they were made with
	told  map[string]object // what the last event about an object showed
}

// Token stands in every ID of the customer's, and in no other's.
func (m *emitter) Token() string { return m.token }

// At says when what happens next happens.
func (m *emitter) At(now time.Time) { m.now = now.Truncate(time.Second) }

// Events returns the events since the last call, in the order of their making.
func (m *emitter) Events() ([]Event, error) {
	events := m.events
	m.events = nil
	return events, m.err
}

func (m *emitter) basil() bool { return data{Params: m.params.WithDefaults()}.Basil() }

// make returns the object of an event of this type, as it is by default.
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

// emit makes an event that shows an object as it is now.
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

// emitWith makes an event about an object that the provider keeps one field more of than it sends.
func (m *emitter) emitWith(eventType string, o object, field string, part any) {
	m.emit(eventType, o)
	sent := &m.events[len(m.events)-1]
	var whole object
	m.err = errors.Join(m.err, json.Unmarshal(sent.Body, &whole))
	whole["data"].(object)["object"].(object)[field] = part
	sent.Whole = m.render(whole)
}

// render writes an event with the IDs as they are told.
func (m *emitter) render(body object) []byte {
	text, err := json.Marshal(body)
	m.err = errors.Join(m.err, err)
	return stripeID.ReplaceAllFunc(text, func(id []byte) []byte { return []byte(m.name(string(id))) })
}

// differing returns what of before is not so any more: of nested objects only what differs, arrays whole.
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

// clone copies an object with all that is in it, as JSON has it.
func clone(o object) object {
	text, err := json.Marshal(o)
	var copied object
	if err == nil {
		err = json.Unmarshal(text, &copied)
	}
	if err != nil {
		panic("forge: " + err.Error()) // it was made of JSON
	}
	return copied
}

// whole reads a number, which JSON has made a float.
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

// name returns the ID that is told for the one that an object was made with.
func (m *emitter) name(id string) string {
	if m.named[id] == "" {
		kind, _, _ := strings.Cut(id, "_")
		m.named[id] = fmt.Sprintf("%s_%s%04d", kind, m.token, len(m.named)+1)
	}
	return m.named[id]
}
