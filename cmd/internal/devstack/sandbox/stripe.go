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

// stripe is the name of the service that stands in for Stripe's API. It is no sink: it answers questions from the
// events that it was told, which it keeps in DIR/stripe/events.jsonl.
const stripe = "stripe"

// mostTold bounds one telling, in bytes.
const mostTold = 64 << 20

// stripeAPI is the part of Stripe's API that pawl reads.
type stripeAPI struct {
	told  *journal
	world *stripeWorld
	// endpoints are the webhook endpoints, as JSON.
	endpoints atomic.Pointer[[]json.RawMessage]
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

// stripeRoutes are the requests that pawl makes, and how the stand-in is told of events.
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
		mux.HandleFunc("GET /stripe/v1"+pattern, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Request-Id", "req_"+strconv.FormatInt(s.asked.Add(1), 10))
			w.Header().Set("Stripe-Version", r.Header.Get("Stripe-Version"))
			answer(w, r)
		})
	}
	for path, kind := range stripeKinds {
		ask("/"+path, func(q stripeQuery) (any, error) { return q.list(path, kind) })
		ask("/"+path+"/{id}", func(q stripeQuery) (any, error) { return q.one(kind) })
	}
	ask("/invoices/{id}/lines", stripeQuery.lines)
	ask("/webhook_endpoints", func(q stripeQuery) (any, error) {
		return page(q, "/v1/webhook_endpoints", "webhook_endpoint", *s.stripe.endpoints.Load(),
			func(e json.RawMessage) string { return gjson.GetBytes(e, "id").Str },
			func(e json.RawMessage) (any, error) { return e, nil })
	})
	mux.HandleFunc("/stripe/v1/", func(w http.ResponseWriter, r *http.Request) {
		stripeRefusal(http.StatusNotFound, "", "", "Unrecognized request URL ("+r.Method+": "+
			strings.TrimPrefix(r.URL.Path, "/stripe")+"). The sandbox only reads, and only what pawl reads.").send(w)
	})
	mux.HandleFunc("PUT /stripe/_endpoints", answering(maxBody, s.putEndpoints))
	mux.HandleFunc("POST /stripe/_events", answering(mostTold, s.tellStripe))
}

// putEndpoints takes the webhook endpoints that Stripe has, as a list of its objects.
func (s *Sandbox) putEndpoints(_ *http.Request, body []byte) reply {
	var list []json.RawMessage
	if err := json.Unmarshal(body, &list); err != nil {
		return refuse(http.StatusBadRequest, "want a list of webhook endpoints: "+err.Error())
	}
	s.stripe.endpoints.Store(&list)
	return reply{status: http.StatusOK, body: map[string]int{"endpoints": len(list)}}
}

// tellStripe takes an event, or a list of them, as they happened at the provider: delivered or not.
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

// stripeError is an answer that refuses a request of the API.
type stripeError struct{ reply }

func (stripeError) Error() string { return "refused as Stripe does" }

// stripeRefusal is an error in Stripe's shape.
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

// stripeFault is a fault's answer.
func stripeFault(status int) reply {
	code := map[int]string{http.StatusTooManyRequests: "rate_limit", http.StatusNotFound: "resource_missing",
		http.StatusConflict: "lock_timeout"}[status]
	return stripeRefusal(status, code, "", "A fault of the sandbox.").reply
}

// stripeQuery is one request of the API.
type stripeQuery struct {
	world *stripeWorld
	scope stripeScope
	id    string
	form  url.Values
	// stale asks for objects as they were before their last event, missing for none, and unsettled for charges and
	// refunds without their balance transaction.
	stale, missing, unsettled bool
}

// stripeQuery reads what every request carries. The key says the mode: of one that says neither, which Stripe has not,
// both are shown, as `pawl dev` takes both.
func (s *Sandbox) stripeQuery(r *http.Request, f fault) (stripeQuery, error) {
	q := stripeQuery{
		world: s.stripe.world, id: r.PathValue("id"), form: r.URL.Query(),
		scope: stripeScope{account: r.Header.Get("Stripe-Account"), mode: modeOfKey(r)},
		stale: f.Mode == modeStale, missing: f.Mode == modeMissing, unsettled: f.Mode == modeUnsettled,
	}
	switch key, version := apiKey(r), r.Header.Get("Stripe-Version"); {
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

// apiKey returns the key of a request, which comes as a bearer token, or as the user of a basic authentication.
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

// asks refuses parameters that the sandbox would not heed: a test that relies on one must not pass by chance.
func (q stripeQuery) asks(kind stripeKind, known ...string) error {
	for name := range q.form {
		if !slices.Contains(known, name) && !(name == "expand[]" && kind.settles) {
			return stripeRefusal(http.StatusBadRequest, "parameter_unknown", name, "Received unknown parameter: "+
				name+" (or one that the sandbox does not know)")
		}
	}
	return nil
}

// one answers with an object.
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

// list answers with a page of objects, the newest first.
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

// lines answers with a page of an invoice's lines. The invoice itself shows the first ones only.
func (q stripeQuery) lines() (any, error) {
	if err := q.asks(stripeKind{}, "limit", "starting_after"); err != nil {
		return nil, err
	}
	invoice, ok := q.world.get(q.scope, "invoice", q.id, q.stale)
	if !ok || q.missing {
		return nil, stripeRefusal(http.StatusNotFound, "resource_missing", "invoice",
			fmt.Sprintf("No such invoice: '%s'", q.id))
	}
	return page(q, "/v1/invoices/"+q.id+"/lines", "line_item", invoice.lines(),
		func(line gjson.Result) string { return line.Get("id").Str },
		func(line gjson.Result) (any, error) { return inBasil(line.Raw), nil })
}

// fits reports whether the request asks for the object.
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

// page answers with the part of a list that limit and starting_after ask for.
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
