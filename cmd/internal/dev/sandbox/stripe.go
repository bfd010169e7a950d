package sandbox

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"
)

// stripe is the name of the service that replaces Stripe's API. It is not a sink: it returns objects from the recorded
// events, which it stores in DIR/stripe/events.jsonl.
const stripe = "stripe"

// mostTold is the largest body of POST /stripe/_events, in bytes.
const mostTold = 64 << 20

// stripeAPI is the part of Stripe's API that pawl reads.
type stripeAPI struct {
	told  *journal
	world *stripeWorld
	// endpoints holds the webhook endpoints and the destinations of thin events, as JSON.
	endpoints atomic.Pointer[[]json.RawMessage]
	// behind is how many seconds the clock of the answers is behind the clock of the machine.
	behind atomic.Int64
}

func openStripe(dir string, endpoints []json.RawMessage) (*stripeAPI, error) {
	dir = filepath.Join(dir, stripe)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	told, err := openJournal(dir, events)
	if err != nil {
		return nil, err
	}
	api := &stripeAPI{told: told, world: newStripeWorld()}
	api.endpoints.Store(&endpoints)
	for _, rec := range told.all() {
		if event, err := readEvent(rec.Body); err == nil && rec.First {
			api.world.learn(event)
		}
	}
	return api, nil
}

// stripeRoutes returns the handlers for the API requests of pawl and for recording events.
func (s *Sandbox) stripeRoutes(mux *http.ServeMux) {
	ask := func(pattern string, handle func(q stripeQuery) (any, error)) {
		answer := s.faulty(stripe, func(r *http.Request, _ []byte, f fault) reply {
			q, err := s.stripeQuery(r, f)
			var body any
			if err == nil {
				body, err = handle(q)
			}
			if refused, ok := errors.AsType[stripeError](err); ok {
				return refused.reply
			}
			return reply{status: http.StatusOK, body: body}
		})
		mux.HandleFunc("GET /stripe"+pattern, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Request-Id", "req_"+strconv.FormatInt(s.asked.Add(1), 10))
			w.Header().Set("Stripe-Version", r.Header.Get("Stripe-Version"))
			if behind := s.stripe.behind.Load(); behind > 0 {
				now := time.Now().Add(-time.Duration(behind) * time.Second)
				w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
			}
			answer(w, r)
		})
	}
	for path, kind := range stripeKinds {
		ask("/v1/"+path, func(q stripeQuery) (any, error) { return q.list(path, kind) })
		ask("/v1/"+path+"/{id}", func(q stripeQuery) (any, error) { return q.one(kind) })
	}
	ask("/v1/invoices/{id}/lines", func(q stripeQuery) (any, error) {
		return q.nested("invoice", q.id, "lines", "/v1/invoices/"+q.id+"/lines", "line_item")
	})
	ask("/v1/checkout/sessions/{id}/line_items", func(q stripeQuery) (any, error) {
		return q.nested("checkout.session", q.id, "line_items", "/v1/checkout/sessions/"+q.id+"/line_items", "item")
	})
	ask("/v1/subscription_items", func(q stripeQuery) (any, error) {
		return q.nested("subscription", q.form.Get("subscription"), "items", "/v1/subscription_items",
			"subscription_item", "subscription")
	})
	ask("/v2/core/events", stripeQuery.thinEvents)
	ask("/v2/core/events/{id}", stripeQuery.thinEvent)
	ask("/v2/core/event_destinations", func(q stripeQuery) (any, error) {
		return q.pageV2("/v2/core/event_destinations", s.stripe.endpointsOf(true), "include[0]")
	})
	ask("/v1/webhook_endpoints", func(q stripeQuery) (any, error) {
		return page(q, "/v1/webhook_endpoints", "webhook_endpoint", s.stripe.endpointsOf(false),
			func(e json.RawMessage) string { return gjson.GetBytes(e, "id").Str },
			func(e json.RawMessage) (any, error) { return e, nil })
	})
	for _, version := range []string{"v1", "v2"} {
		mux.HandleFunc("/stripe/"+version+"/", func(w http.ResponseWriter, r *http.Request) {
			stripeRefusal(http.StatusNotFound, "", "", "Unrecognized request URL ("+r.Method+": "+
				strings.TrimPrefix(r.URL.Path, "/stripe")+"). The sandbox has the read requests of pawl.").send(w)
		})
	}
	mux.HandleFunc("PUT /stripe/_endpoints", answering(maxBody, s.putEndpoints))
	mux.HandleFunc("PUT /stripe/_clock", answering(maxBody, s.putClock))
	mux.HandleFunc("POST /stripe/_events", answering(mostTold, s.tellStripe))
}

// putEndpoints replaces the webhook endpoints and event destinations with the given list of objects.
func (s *Sandbox) putEndpoints(_ *http.Request, body []byte) reply {
	var list []json.RawMessage
	if err := json.Unmarshal(body, &list); err != nil {
		return refuse(http.StatusBadRequest, "want a list of webhook endpoints: "+err.Error())
	}
	s.stripe.endpoints.Store(&list)
	return reply{status: http.StatusOK, body: map[string]int{"endpoints": len(list)}}
}

// putClock sets the clock of the answers to a time in the past, in Unix seconds. The clock continues from there. A
// later call cannot set it back.
func (s *Sandbox) putClock(_ *http.Request, body []byte) reply {
	at, err := strconv.ParseInt(strings.TrimSpace(string(body)), 10, 64)
	if err != nil {
		return refuse(http.StatusBadRequest, "want a time in Unix seconds: "+err.Error())
	}
	behind := max(1, time.Now().Unix()-at)
	if before := s.stripe.behind.Load(); before == 0 || behind < before {
		s.stripe.behind.Store(behind)
	}
	return reply{status: http.StatusOK, body: map[string]int64{"behind": s.stripe.behind.Load()}}
}

// tellStripe records an event, or a list of events, at the provider, whether it is delivered or not.
func (s *Sandbox) tellStripe(_ *http.Request, body []byte) reply {
	var bodies []json.RawMessage
	if json.Unmarshal(body, &bodies) != nil {
		bodies = []json.RawMessage{body}
	}
	var told []stripeEvent
	for i, body := range bodies {
		event, err := readEvent(body)
		if err != nil {
			return refuse(http.StatusBadRequest, fmt.Sprintf("event %d: %v", i+1, err))
		}
		told = append(told, event)
	}
	for _, event := range told {
		line, err := oneLine(event.body)
		if err == nil {
			_, err = s.stripe.told.accept(record{Key: event.id, Account: event.account, Body: line}, false)
		}
		if err != nil {
			s.log.Error("sandbox journal", "service", stripe, "error", err)
			return refuse(http.StatusInternalServerError, "the journal cannot be written")
		}
		s.stripe.world.learn(event)
	}
	return reply{status: http.StatusAccepted, body: map[string]int{"events": len(told)}}
}

// stripeError is an error answer of the API.
type stripeError struct{ reply }

func (stripeError) Error() string { return "refused as Stripe does" }

// stripeRefusal is an error body with Stripe's fields.
func stripeRefusal(status int, code, param, message string) stripeError {
	said := map[string]string{"type": "invalid_request_error", "message": message}
	if status >= 500 {
		said["type"] = "api_error"
	}
	if code != "" {
		said["code"] = code
		said["doc_url"] = "https://stripe.com/docs/error-codes/" + strings.ReplaceAll(code, "_", "-")
	}
	if param != "" {
		said["param"] = param
	}
	return stripeError{reply{status: status, body: map[string]any{"error": said}}}
}

// stripeFault returns the answer of a fault.
func stripeFault(status int) reply {
	code := map[int]string{http.StatusTooManyRequests: "rate_limit", http.StatusNotFound: "resource_missing",
		http.StatusConflict: "lock_timeout"}[status]
	return stripeRefusal(status, code, "", "A fault of the sandbox.").reply
}

// stripeQuery is one request to the API.
type stripeQuery struct {
	world *stripeWorld
	scope stripeScope
	id    string
	form  url.Values
	// The modes of faults: stale returns objects as they were before their last event, missing returns no object, and
	// unsettled returns charges and refunds without their balance transaction.
	stale, missing, unsettled bool
}

// stripeQuery parses the common parts of a request. The key determines the mode. Stripe has no key without a mode; with
// such a key the sandbox returns the objects of both modes, because `pawl dev` accepts both.
func (s *Sandbox) stripeQuery(r *http.Request, f fault) (stripeQuery, error) {
	q := stripeQuery{
		world: s.stripe.world, id: r.PathValue("id"), form: r.URL.Query(),
		scope: stripeScope{cmp.Or(r.Header.Get("Stripe-Context"), r.Header.Get("Stripe-Account")), modeOfKey(r)},
		stale: f.Mode == modeStale, missing: f.Mode == modeMissing, unsettled: f.Mode == modeUnsettled,
	}
	switch key, version := apiKey(r), r.Header.Get("Stripe-Version"); {
	case strings.Contains(r.URL.Path, "/v2/") && r.Header.Get("Stripe-Account") != "":
		return q, stripeRefusal(http.StatusBadRequest, "", "", "API v2 takes the connected account as Stripe-Context.")
	case version != "" && version < basil:
		return q, stripeRefusal(http.StatusBadRequest, "", "", "The sandbox answers in no version before "+basil+".")
	case key == "":
		return q, stripeRefusal(http.StatusUnauthorized, "", "", "You did not provide an API key.")
	case !strings.HasPrefix(key, "rk_") && !strings.HasPrefix(key, "sk_"):
		return q, stripeRefusal(http.StatusUnauthorized, "", "", "Invalid API Key provided")
	case !q.world.knows(q.scope.account):
		return q, stripeRefusal(http.StatusForbidden, "account_invalid", "",
			"The provided key does not have access to account '"+q.scope.account+
				"' (or that account does not exist). Application access may have been revoked.")
	}
	return q, nil
}

// apiKey returns the key of a request: the bearer token or the user of basic authentication.
func apiKey(r *http.Request) string {
	if user, _, ok := r.BasicAuth(); ok {
		return user
	}
	key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return key
}

func modeOfKey(r *http.Request) string {
	for _, mode := range []string{"live", "test"} {
		if strings.Contains(apiKey(r), "_"+mode+"_") {
			return mode
		}
	}
	return ""
}

// asks rejects parameters that the sandbox does not support, so that a test which needs one cannot pass by chance.
func (q stripeQuery) asks(kind stripeKind, known ...string) error {
	for name := range q.form {
		if !slices.Contains(known, name) && !(name == "expand[]" && kind.settles) {
			return stripeRefusal(http.StatusBadRequest, "parameter_unknown", name, "Received unknown parameter: "+
				name+" (or one that the sandbox does not know)")
		}
	}
	return nil
}

// one returns one object.
func (q stripeQuery) one(kind stripeKind) (any, error) {
	if err := q.asks(kind, "id"); err != nil {
		return nil, err
	}
	object, ok := q.world.get(q.scope, kind.object, q.id, q.stale)
	if !ok || q.missing {
		return nil, stripeRefusal(http.StatusNotFound, "resource_missing", "id",
			fmt.Sprintf("No such %s: '%s'", strings.ReplaceAll(kind.object, "_", " "), q.id))
	}
	return q.expand(object.shown())
}

// list returns one page of objects, newest first.
func (q stripeQuery) list(path string, kind stripeKind) (any, error) {
	filters := slices.Collect(maps.Keys(kind.filters))
	if err := q.asks(kind, append(filters, "limit", "starting_after", "created[gte]", "created[lte]",
		"types[]")...); err != nil {
		return nil, err
	}
	if types := q.form["types[]"]; len(types) > 20 || len(types) > 0 && q.form.Has("type") {
		return nil, stripeRefusal(http.StatusBadRequest, "", "types", "You can pass up to 20 types, not beside type.")
	}
	found := q.world.all(q.scope, kind.object, q.stale)
	if intent := q.form.Get("payment_intent"); kind.object == "charge" && intent != "" &&
		!slices.ContainsFunc(found, func(o stripeObject) bool { return o.text("payment_intent") == intent }) {
		found = q.world.impliedCharge(q.scope, intent)
	}
	if q.missing {
		found = nil
	}
	if kind.kept > 0 {
		oldest := time.Now().Add(-kind.kept).Unix()
		found = slices.DeleteFunc(found, func(o stripeObject) bool { return o.created < oldest })
	}
	var bad error
	found = slices.DeleteFunc(found, func(o stripeObject) bool {
		keep, err := q.fits(o, kind)
		bad = cmp.Or(bad, err)
		return !keep
	})
	if bad != nil {
		return nil, stripeRefusal(http.StatusBadRequest, "parameter_invalid_integer", "created", bad.Error())
	}
	return page(q, "/v1/"+path, kind.object, found, stripeObject.id,
		func(o stripeObject) (any, error) { return q.expand(o.shown()) })
}

// nested returns one page of a list inside an object. The object itself contains only the first elements, or none.
func (q stripeQuery) nested(object, id, field, path, element string, parameters ...string) (any, error) {
	if err := q.asks(stripeKind{}, append(parameters, "limit", "starting_after")...); err != nil {
		return nil, err
	}
	of, ok := q.world.get(q.scope, object, id, q.stale)
	if !ok || q.missing {
		return nil, stripeRefusal(http.StatusNotFound, "resource_missing", object,
			fmt.Sprintf("No such %s: '%s'", object, id))
	}
	if whole, err := json.Marshal(InBasil(of.json)); err == nil { // an item of a subscription has its period from it
		of.json = string(whole)
	}
	return page(q, path, element, of.elements(field),
		func(each gjson.Result) string { return each.Get("id").Str },
		func(each gjson.Result) (any, error) { return InBasil(each.Raw), nil })
}

// fits reports whether the object matches the filters of the request.
func (q stripeQuery) fits(o stripeObject, kind stripeKind) (bool, error) {
	for name, field := range kind.filters {
		if want := q.form.Get(name); want != "" && !field(o, want) {
			return false, nil
		}
	}
	if types := q.form["types[]"]; len(types) > 0 && !slices.Contains(types, o.text("type")) {
		return false, nil
	}
	if kind.unasked != nil && q.form.Get("status") == "" && !kind.unasked(o) {
		return false, nil
	}
	for name, order := range map[string]int{"gte": -1, "lte": 1} {
		given := q.form.Get("created[" + name + "]")
		bound, err := strconv.ParseInt(given, 10, 64)
		switch {
		case given == "":
		case err != nil:
			return false, errors.New("invalid integer: " + given)
		case cmp.Compare(o.created, bound) == order:
			return false, nil
		}
	}
	return true, nil
}

// page returns the part of a list that limit and starting_after select.
func page[T any](q stripeQuery, path, name string, all []T, id func(T) string,
	shown func(T) (any, error)) (any, error) {
	limit, err := strconv.Atoi(cmp.Or(q.form.Get("limit"), "10"))
	if err != nil || limit < 1 || limit > 100 {
		return nil, stripeRefusal(http.StatusBadRequest, "parameter_invalid_integer", "limit",
			"Invalid limit: want 1 to 100, not "+q.form.Get("limit"))
	}
	if after := q.form.Get("starting_after"); after != "" {
		at := slices.IndexFunc(all, func(o T) bool { return id(o) == after })
		if at < 0 {
			return nil, stripeRefusal(http.StatusBadRequest, "resource_missing", "starting_after",
				fmt.Sprintf("No such %s: '%s'", name, after))
		}
		all = all[at+1:]
	}
	data := make([]any, min(limit, len(all)))
	for i := range data {
		if data[i], err = shown(all[i]); err != nil {
			return nil, err
		}
	}
	return map[string]any{"object": "list", "url": path, "has_more": len(all) > limit, "data": data}, nil
}
