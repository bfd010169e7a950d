package sandbox

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// stripeKind is what can be asked of one kind of objects.
type stripeKind struct {
	// object is the objects' name of their kind.
	object string
	// filters are the parameters of its list, and what they ask of an object.
	filters map[string]func(o stripeObject, want string) bool
	// unasked says which objects are listed where no status is asked for; nil for all.
	unasked func(o stripeObject) bool
	// new is set for what the API has since 2025-03-31.basil.
	new bool
	// kept is for how long they are listed, 0 for ever.
	kept time.Duration
}

// field is a filter for what stands at a path of an object: a text, or an object that has an ID.
func field(path ...string) func(o stripeObject, want string) bool {
	return func(o stripeObject, want string) bool { return o.text(path...) == want }
}

// stripeKinds are the kinds by the paths of their lists.
var stripeKinds = map[string]stripeKind{
	"customers": {object: "customer", filters: map[string]func(stripeObject, string) bool{"email": field("email")},
		unasked: func(o stripeObject) bool { return !o.gone }},
	"subscriptions": {
		object: "subscription",
		filters: map[string]func(stripeObject, string) bool{
			"customer": field("customer"), "collection_method": field("collection_method"),
			"status": func(o stripeObject, want string) bool {
				switch ended := o.text("status") == "canceled" || o.text("status") == "incomplete_expired"; want {
				case "all":
					return true
				case "ended":
					return ended
				}
				return o.text("status") == want
			},
		},
		unasked: func(o stripeObject) bool { return o.text("status") != "canceled" },
	},
	"invoices": {
		object: "invoice",
		filters: map[string]func(stripeObject, string) bool{
			"customer": field("customer"), "status": field("status"), "collection_method": field("collection_method"),
			"subscription": func(o stripeObject, want string) bool {
				return cmp.Or(o.text("subscription"), o.text("parent", "subscription_details", "subscription")) == want
			},
		},
	},
	"invoice_payments": {
		object: "invoice_payment", new: true,
		filters: map[string]func(stripeObject, string) bool{
			"invoice": field("invoice"), "status": field("status"), "payment[type]": field("payment", "type"),
			"payment[payment_intent]": field("payment", "payment_intent"),
		},
	},
	"charges": {object: "charge",
		filters: map[string]func(stripeObject, string) bool{"customer": field("customer"),
			"payment_intent": field("payment_intent")}},
	"credit_notes": {object: "credit_note",
		filters: map[string]func(stripeObject, string) bool{"customer": field("customer"),
			"invoice": field("invoice")}},
	"refunds": {object: "refund",
		filters: map[string]func(stripeObject, string) bool{"charge": field("charge"),
			"payment_intent": field("payment_intent")}},
	"disputes": {object: "dispute",
		filters: map[string]func(stripeObject, string) bool{"charge": field("charge"),
			"payment_intent": field("payment_intent")}},
	"radar/early_fraud_warnings": {
		object: "radar.early_fraud_warning",
		filters: map[string]func(stripeObject, string) bool{"charge": field("charge"),
			"payment_intent": field("payment_intent")},
	},
	"checkout/sessions": {object: "checkout.session",
		filters: map[string]func(stripeObject, string) bool{"customer": field("customer"),
			"subscription": field("subscription"), "payment_intent": field("payment_intent"),
			"status": field("status")}},
	"events": {object: "event", filters: map[string]func(stripeObject, string) bool{"type": field("type")},
		kept: 30 * 24 * time.Hour},
}

// stripeScope is where an object is: at the stand-in's own account or a connected one, in test or in live mode.
type stripeScope struct{ account, mode string }

// stripeEvent is what an event tells.
type stripeEvent struct {
	ID, Type, Account string
	Created           int64
	Livemode          bool
	Data              struct{ Object json.RawMessage }

	object map[string]json.RawMessage
	body   json.RawMessage
}

func readEvent(body []byte) (stripeEvent, error) {
	var head struct{ Object string }
	event := stripeEvent{body: body}
	if json.Unmarshal(body, &head) != nil || head.Object != "event" {
		return event, errors.New(`want an event of Stripe's: a JSON object with "object": "event"`)
	}
	if err := json.Unmarshal(body, &event); err != nil {
		return event, err
	}
	if event.ID == "" || json.Unmarshal(event.Data.Object, &event.object) != nil {
		return event, errors.New("want id and data.object")
	}
	return event, nil
}

// stripeObject is an object as one event showed it.
type stripeObject struct {
	fields map[string]json.RawMessage
	// at is when the event was made, created when the object was first told of: by it lists are ordered.
	at, created int64
	gone        bool
}

func (o stripeObject) id() string { return o.text("id") }

// text returns what stands at a path: a text, the ID of an object, or "".
func (o stripeObject) text(path ...string) string {
	fields := o.fields
	for _, name := range path[:len(path)-1] {
		var inner map[string]json.RawMessage
		if json.Unmarshal(fields[name], &inner) != nil {
			return ""
		}
		fields = inner
	}
	raw := fields[path[len(path)-1]]
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return idOf(raw)
}

func idOf(raw json.RawMessage) string {
	var expanded struct{ ID string }
	_ = json.Unmarshal(raw, &expanded) // anything else has no ID
	return expanded.ID
}

// lines returns all of an invoice's.
func (o stripeObject) lines() []json.RawMessage {
	var list struct{ Data []json.RawMessage }
	_ = json.Unmarshal(o.fields["lines"], &list) // anything but a list has no lines
	return list.Data
}

// linesShown is how many of its lines an invoice carries.
const linesShown = 10

// shown is the object as it is answered: of an invoice with its first lines, and of a deleted one its ID.
func (o stripeObject) shown() any {
	if o.gone {
		return map[string]any{"id": o.id(), "object": o.text("object"), "deleted": true}
	}
	lines := o.lines()
	if len(lines) <= linesShown {
		return o.fields
	}
	fields := maps.Clone(o.fields)
	list, err := json.Marshal(map[string]any{"object": "list", "data": lines[:linesShown], "has_more": true,
		"url": "/v1/invoices/" + o.id() + "/lines"})
	if err != nil {
		panic("sandbox: " + err.Error()) // these are JSON texts
	}
	fields["lines"] = list
	return fields
}

// stripeWorld is all that events told, by scope, kind and ID: each object as every event showed it, in their order.
type stripeWorld struct {
	mu      sync.Mutex
	objects map[stripeScope]map[string]map[string][]stripeObject
	seen    map[string]bool
}

func newStripeWorld() *stripeWorld {
	return &stripeWorld{objects: map[stripeScope]map[string]map[string][]stripeObject{}, seen: map[string]bool{}}
}

// learn remembers what an event tells. One that was told before changes nothing, and one that was made before another
// does not hide what that one showed.
func (w *stripeWorld) learn(e stripeEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[e.Account+" "+e.ID] {
		return
	}
	w.seen[e.Account+" "+e.ID] = true
	scope := stripeScope{e.Account, "test"}
	if e.Livemode {
		scope.mode = "live"
	}
	var event map[string]json.RawMessage
	_ = json.Unmarshal(e.body, &event) // readEvent has read it
	w.add(scope, stripeObject{fields: event, at: e.Created})
	shown := stripeObject{fields: e.object, at: e.Created, gone: e.Type == "customer.deleted" ||
		e.Type == "invoice.deleted"}
	w.add(scope, shown)
	// An object's customer can be asked for, although no event told of it.
	if customer := shown.text("customer"); customer != "" && len(w.objects[scope]["customer"][customer]) == 0 {
		w.add(scope, impliedCustomer(customer, e.Created, e.Livemode))
	}
}

func impliedCustomer(id string, created int64, live bool) stripeObject {
	body, err := json.Marshal(map[string]any{
		"id": id, "object": "customer", "created": created, "livemode": live, "metadata": map[string]string{},
		"email": nil, "name": nil, "currency": nil, "delinquent": false,
	})
	var fields map[string]json.RawMessage
	if err != nil || json.Unmarshal(body, &fields) != nil {
		panic("sandbox: a customer that is no JSON")
	}
	return stripeObject{fields: fields} // at 0: any event about it comes after
}

func (w *stripeWorld) add(scope stripeScope, o stripeObject) {
	kind, id := o.text("object"), o.id()
	if id == "" { // an upcoming invoice has none, and cannot be asked for
		return
	}
	if w.objects[scope] == nil {
		w.objects[scope] = map[string]map[string][]stripeObject{}
	}
	if w.objects[scope][kind] == nil {
		w.objects[scope][kind] = map[string][]stripeObject{}
	}
	versions := append(w.objects[scope][kind][id], o)
	slices.SortStableFunc(versions, func(a, b stripeObject) int { return cmp.Compare(a.at, b.at) })
	_ = json.Unmarshal(versions[0].fields["created"], &versions[0].created) // else 0
	for i := range versions {
		versions[i].created = versions[0].created
	}
	w.objects[scope][kind][id] = versions
}

// knows reports whether any event was of the connected account; "" is the stand-in's own.
func (w *stripeWorld) knows(account string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for scope := range w.objects {
		if scope.account == account {
			return true
		}
	}
	return account == ""
}

// scopes are those that a key of the scope's mode sees; one without a mode sees both.
func (s stripeScope) scopes() []stripeScope {
	if s.mode != "" {
		return []stripeScope{s}
	}
	return []stripeScope{{s.account, "live"}, {s.account, "test"}}
}

// newest is the last version of an object, or with stale the one before.
func newest(versions []stripeObject, stale bool) stripeObject {
	last := len(versions) - 1
	if stale {
		last = max(0, last-1)
	}
	return versions[last]
}

func (w *stripeWorld) get(scope stripeScope, kind, id string, stale bool) (stripeObject, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range scope.scopes() {
		if versions := w.objects[s][kind][id]; len(versions) > 0 {
			o := w.withDispute(s, kind, newest(versions, stale))
			return o, !o.gone || kind == "customer" // of a deleted customer the API still tells that
		}
	}
	return stripeObject{}, false
}

// withDispute marks a disputed charge, since no event of the charge tells of the dispute.
func (w *stripeWorld) withDispute(scope stripeScope, kind string, o stripeObject) stripeObject {
	if kind != "charge" {
		return o
	}
	for _, versions := range w.objects[scope]["dispute"] {
		if newest(versions, false).text("charge") == o.id() {
			o.fields = maps.Clone(o.fields)
			o.fields["disputed"] = json.RawMessage("true")
		}
	}
	return o
}

// all returns the objects of a kind, the newest first.
func (w *stripeWorld) all(scope stripeScope, kind string, stale bool) (found []stripeObject) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range scope.scopes() {
		for _, versions := range w.objects[s][kind] {
			if o := newest(versions, stale); !o.gone {
				found = append(found, w.withDispute(s, kind, o))
			}
		}
	}
	slices.SortFunc(found, func(a, b stripeObject) int {
		return cmp.Or(cmp.Compare(b.created, a.created), cmp.Compare(b.id(), a.id()))
	})
	return found
}
