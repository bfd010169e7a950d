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

// stripeKind describes the list of one kind of object.
type stripeKind struct {
	// object is the value of the field "object".
	object  string
	filters filters
	// unasked selects the objects of a list request without a status. Nil selects all.
	unasked func(o stripeObject) bool
	// settles is set for objects with an expandable balance transaction.
	settles bool
	// kept is how long an object is listed. 0 means forever.
	kept time.Duration
}

// filters are the parameters of a list and their conditions on an object.
type filters map[string]func(o stripeObject, want string) bool

// fields returns filters for the fields with the names of the parameters.
func fields(names ...string) filters {
	f := filters{}
	for _, name := range names {
		f[name] = field(name)
	}
	return f
}

// field returns a filter for the string, or the ID of the object, at a path.
func field(path string) func(o stripeObject, want string) bool {
	return func(o stripeObject, want string) bool { return o.text(path) == want }
}

// stripeKinds maps the path of a list to its kind.
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
	"payment_intents": {object: "payment_intent", filters: fields("customer")},
	"charges":         {object: "charge", settles: true, filters: fields("customer", "payment_intent")},
	"credit_notes":    {object: "credit_note", filters: fields("customer", "invoice")},
	"refunds":         {object: "refund", settles: true, filters: fields("charge", "payment_intent")},
	"disputes":        {object: "dispute", filters: fields("charge", "payment_intent")},
	"radar/early_fraud_warnings": {object: "radar.early_fraud_warning",
		filters: fields("charge", "payment_intent")},
	"checkout/sessions": {object: "checkout.session",
		filters: fields("customer", "subscription", "payment_intent", "status")},
	"events": {object: "event", filters: fields("type"), kept: 30 * 24 * time.Hour},
}

// stripeScope identifies the account and the mode of an object. The account is empty for the platform account.
type stripeScope struct{ account, mode string }

// stripeEvent holds the parsed fields of an event.
type stripeEvent struct {
	id, kind, account string
	created           int64
	live              bool
	object            string
	body              json.RawMessage
}

func readEvent(body []byte) (stripeEvent, error) {
	said := gjson.ParseBytes(body)
	if !gjson.ValidBytes(body) || said.Get("object").Str != "event" && said.Get("object").Str != thinObject {
		return stripeEvent{}, errors.New(`want an event of Stripe's: a JSON object with "object": "event"`)
	}
	if said.Get("object").Str == thinObject {
		return readThin(said, body)
	}
	object := said.Get("data.object")
	event := stripeEvent{id: said.Get("id").Str, kind: said.Get("type").Str, account: said.Get("account").Str,
		created: said.Get("created").Int(), live: said.Get("livemode").Bool(), object: object.Raw, body: body}
	if event.id == "" || !object.IsObject() {
		return event, errors.New("want id and data.object")
	}
	return event, nil
}

// stripeObject is one version of an object, from one event.
type stripeObject struct {
	json string
	// at is the time of the event. created is the time of the first event of the object; lists are ordered by it.
	at, created int64
	gone        bool
}

func (o stripeObject) id() string { return o.text("id") }

// text returns the string, or the ID of the object, at a path. It returns "" if there is neither.
func (o stripeObject) text(path string) string {
	value := gjson.Get(o.json, path)
	return cmp.Or(value.Str, value.Get("id").Str)
}

func (o stripeObject) number(path string) int64 { return gjson.Get(o.json, path).Int() }

// elements returns all elements of a list of the object.
func (o stripeObject) elements(field string) []gjson.Result {
	return gjson.Get(o.json, field+".data").Array()
}

// elementsShown is the number of elements that an embedded list contains.
const elementsShown = 10

// shown returns the object for an answer: an invoice with its first lines, a subscription with its first items, a
// checkout session without lines, and a deleted object with only its ID.
func (o stripeObject) shown() any {
	if o.gone {
		return map[string]any{"id": o.id(), "object": o.text("object"), "deleted": true}
	}
	text := o.json
	for field, path := range map[string]string{
		"lines": "/v1/invoices/" + o.id() + "/lines", "items": "/v1/subscription_items?subscription=" + o.id(),
	} {
		if all := o.elements(field); len(all) > elementsShown {
			first := make([]json.RawMessage, elementsShown)
			for i := range first {
				first[i] = json.RawMessage(all[i].Raw)
			}
			text = with(text, field, map[string]any{"object": "list", "data": first, "has_more": true, "url": path})
		}
	}
	if without, err := sjson.Delete(text, "line_items"); err == nil {
		text = without
	}
	return InBasil(text)
}

// with returns an object with one changed field.
func with(object, name string, value any) string {
	changed, err := sjson.Set(object, name, value)
	if err != nil {
		panic("sandbox: " + err.Error()) // readEvent has already parsed it
	}
	return changed
}

// stripeWorld holds all recorded objects by scope, kind and ID, with every version in the order of the events.
type stripeWorld struct {
	mu      sync.Mutex
	objects map[stripeScope]map[string]map[string][]stripeObject
	// thin holds the thin events in the order of lists.
	thin map[stripeScope][]stripeEvent
	seen map[string]bool
}

func newStripeWorld() *stripeWorld {
	return &stripeWorld{objects: map[stripeScope]map[string]map[string][]stripeObject{},
		thin: map[stripeScope][]stripeEvent{}, seen: map[string]bool{}}
}

// learn records the object of an event. A repeated event changes nothing. An older event does not replace the object of
// a newer event.
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
	if e.object == "" {
		w.thin[scope] = append(w.thin[scope], e)
		return
	}
	w.add(scope, stripeObject{json: string(e.body), at: e.created})
	shown := stripeObject{json: e.object, at: e.created,
		gone: e.kind == "customer.deleted" || e.kind == "invoice.deleted"}
	w.add(scope, shown)
	if intent, invoice := tied(shown); intent != "" && invoice != "" && shown.text("object") != "invoice_payment" {
		w.add(scope, stripeObject{json: invoicePayment(shown, intent, invoice), at: e.created})
	}
	for _, refund := range gjson.Get(e.object, "refunds.data").Array() { // only charges contain refunds
		w.add(scope, stripeObject{json: refund.Raw, at: e.created})
	}
	// A customer can be fetched without an event about it. Any event of the customer replaces this version, because
	// its time is 0.
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
	if id == "" { // an upcoming invoice has no ID and cannot be fetched
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

// knows reports whether there is an event of the connected account. "" is the platform account.
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

// scopes returns the scopes that a key can read. A key without a mode reads both modes.
func (s stripeScope) scopes() []stripeScope {
	if s.mode != "" {
		return []stripeScope{s}
	}
	return []stripeScope{{s.account, "live"}, {s.account, "test"}}
}

// newest returns the last version of an object, or with stale the version before it.
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
			return o, !o.gone || kind == "customer" // the API returns a deleted customer as deleted
		}
	}
	return stripeObject{}, false
}

// withDispute marks a disputed charge. No event of the charge itself reports the dispute.
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

// all returns the objects of a kind, newest first.
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
