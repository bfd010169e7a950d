package sandbox

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// stripeKind is what can be asked of one kind of objects.
type stripeKind struct {
	// object is the objects' name of their kind.
	object  string
	filters filters
	// unasked says which objects are listed where no status is asked for; nil for all.
	unasked func(o stripeObject) bool
	// settles is set for objects with a balance transaction, which can be expanded.
	settles bool
	// kept is for how long they are listed, 0 for ever.
	kept time.Duration
}

// filters are the parameters of a list, and what they ask of an object.
type filters map[string]func(o stripeObject, want string) bool

// fields are the filters for what stands under the parameter's own name.
func fields(names ...string) filters {
	f := filters{}
	for _, name := range names {
		f[name] = field(name)
	}
	return f
}

// field is a filter for what stands at a path of an object: a text, or an object that has an ID.
func field(path string) func(o stripeObject, want string) bool {
	return func(o stripeObject, want string) bool { return o.text(path) == want }
}

// stripeKinds are the kinds by the paths of their lists.
var stripeKinds = map[string]stripeKind{
	"customers": {object: "customer", filters: fields("email"),
		unasked: func(o stripeObject) bool { return !o.gone }},
	"subscriptions": {
		object: "subscription",
		filters: filters{
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
		filters: filters{
			"customer": field("customer"), "status": field("status"), "collection_method": field("collection_method"),
			"subscription": func(o stripeObject, want string) bool {
				return cmp.Or(o.text("subscription"), o.text("parent.subscription_details.subscription")) == want
			},
		},
	},
	"invoice_payments": {
		object: "invoice_payment",
		filters: filters{
			"invoice": field("invoice"), "status": field("status"), "payment[type]": field("payment.type"),
			"payment[payment_intent]": field("payment.payment_intent"),
		},
	},
	"charges":      {object: "charge", settles: true, filters: fields("customer", "payment_intent")},
	"credit_notes": {object: "credit_note", filters: fields("customer", "invoice")},
	"refunds":      {object: "refund", settles: true, filters: fields("charge", "payment_intent")},
	"disputes":     {object: "dispute", filters: fields("charge", "payment_intent")},
	"radar/early_fraud_warnings": {object: "radar.early_fraud_warning",
		filters: fields("charge", "payment_intent")},
	"checkout/sessions": {object: "checkout.session",
		filters: fields("customer", "subscription", "payment_intent", "status")},
	"events": {object: "event", filters: fields("type"), kept: 30 * 24 * time.Hour},
}

// stripeScope is where an object is: at the stand-in's own account or a connected one, in test or in live mode.
type stripeScope struct{ account, mode string }

// stripeEvent is what an event tells.
type stripeEvent struct {
	id, kind, account string
	created           int64
	live              bool
	object            string
	body              json.RawMessage
}

func readEvent(body []byte) (stripeEvent, error) {
	said := gjson.ParseBytes(body)
	if !gjson.ValidBytes(body) || said.Get("object").Str != "event" {
		return stripeEvent{}, errors.New(`want an event of Stripe's: a JSON object with "object": "event"`)
	}
	object := said.Get("data.object")
	event := stripeEvent{id: said.Get("id").Str, kind: said.Get("type").Str, account: said.Get("account").Str,
		created: said.Get("created").Int(), live: said.Get("livemode").Bool(), object: object.Raw, body: body}
	if event.id == "" || !object.IsObject() {
		return event, errors.New("want id and data.object")
	}
	return event, nil
}

// stripeObject is an object as one event showed it.
type stripeObject struct {
	json string
	// at is when the event was made, created when the object was first told of: by it lists are ordered.
	at, created int64
	gone        bool
}

func (o stripeObject) id() string { return o.text("id") }

// text returns what stands at a path: a text, the ID of an object, or "".
func (o stripeObject) text(path string) string {
	value := gjson.Get(o.json, path)
	return cmp.Or(value.Str, value.Get("id").Str)
}

func (o stripeObject) number(path string) int64 { return gjson.Get(o.json, path).Int() }

// lines returns all of an invoice's.
func (o stripeObject) lines() []gjson.Result { return gjson.Get(o.json, "lines.data").Array() }

// linesShown is how many of its lines an invoice carries.
const linesShown = 10

// shown is the object as it is answered: of an invoice with its first lines, and of a deleted one its ID.
func (o stripeObject) shown() any {
	if o.gone {
		return map[string]any{"id": o.id(), "object": o.text("object"), "deleted": true}
	}
	lines, text := o.lines(), o.json
	if len(lines) > linesShown {
		first := make([]json.RawMessage, linesShown)
		for i := range first {
			first[i] = json.RawMessage(lines[i].Raw)
		}
		text = with(text, "lines", map[string]any{"object": "list", "data": first, "has_more": true,
			"url": "/v1/invoices/" + o.id() + "/lines"})
	}
	return inBasil(text)
}

// with returns an object with a member set.
func with(object, name string, value any) string {
	changed, err := sjson.Set(object, name, value)
	if err != nil {
		panic("sandbox: " + err.Error()) // readEvent has read it
	}
	return changed
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
	if w.seen[e.account+" "+e.id] {
		return
	}
	w.seen[e.account+" "+e.id] = true
	scope := stripeScope{e.account, "test"}
	if e.live {
		scope.mode = "live"
	}
	w.add(scope, stripeObject{json: string(e.body), at: e.created})
	shown := stripeObject{json: e.object, at: e.created,
		gone: e.kind == "customer.deleted" || e.kind == "invoice.deleted"}
	w.add(scope, shown)
	if intent, invoice := tied(shown); intent != "" && invoice != "" && shown.text("object") != "invoice_payment" {
		w.add(scope, stripeObject{json: invoicePayment(shown, intent, invoice), at: e.created})
	}
	for _, refund := range gjson.Get(e.object, "refunds.data").Array() { // only charges carry any
		w.add(scope, stripeObject{json: refund.Raw, at: e.created})
	}
	// An object's customer can be asked for, although no event told of it. Any event about it comes after 0.
	if customer := shown.text("customer"); customer != "" && len(w.objects[scope]["customer"][customer]) == 0 {
		implied := `{"object":"customer","metadata":{},"email":null,"name":null,"currency":null,"delinquent":false}`
		for name, value := range map[string]any{"id": customer, "created": e.created, "livemode": e.live} {
			implied = with(implied, name, value)
		}
		w.add(scope, stripeObject{json: implied})
	}
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
	for i := range versions {
		versions[i].created = gjson.Get(versions[0].json, "created").Int()
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
			o.json = with(o.json, "disputed", true)
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
