package sinkcheck

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/pawlhq/pawl/activities"
)

// atOnce is the number of concurrent requests with one key.
const atOnce = 16

// inProgress lists the statuses for a key with a first request that has not ended.
var inProgress = []int{http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests,
	http.StatusServiceUnavailable}

// Writing returns the check with requests that the sink executes. ok is false if pawl has no such requests for it.
func (p Plan) Writing() (writing Plan, ok bool) {
	if p.api == nil || p.api.request.Method == "" {
		return p, false
	}
	p.run = p.api.write
	return p, true
}

// Request is a request to a sink that only flows use. Path begins with "/". Body is a JSON object.
type Request struct {
	Method, Path string
	Body         json.RawMessage
}

// addedField is added to the body of a request to get another body.
const addedField = "pawl_check"

// Sending returns the check with a request in place of pawl's own. ok is false if the sink has no HTTP API.
func (p Plan) Sending(r Request) (sending Plan, ok bool) {
	if p.api == nil {
		return p, false
	}
	k := *p.api
	k.request = activities.Request{Method: r.Method, Path: r.Path, Body: r.Body}
	k.other, k.older, k.added = k.request, nil, true
	k.other.Body = withField(r.Body)
	k.effects = fmt.Sprintf("the sink must have executed exactly two requests %s %s", r.Method, r.Path)
	stays := fmt.Sprintf("two requests %s %s, or up to 21 if the API ignores keys", r.Method, r.Path)
	return Plan{Sink: p.Sink, Stays: stays, run: k.check, api: &k}, true
}

// write checks an API with requests that it executes: the requests of check, concurrent requests with one key, and a
// request with an older version.
func (k keyed) write(ctx context.Context) []Finding {
	k.writes = true
	found := k.check(ctx)
	if slices.ContainsFunc(found, func(f Finding) bool {
		return f.Result == Fails && (f.Check == "reach" || f.Check == "token")
	}) {
		return found
	}
	found = append(found, k.together(ctx))
	if k.older != nil {
		found = append(found, k.late(ctx))
	}
	return append(found, Finding{Sink: k.name, Check: "effects", Result: Note, Found: k.effects,
		Do: "look at it in the sink: equal answers do not prove that the sink executed a request once"})
}

// withField returns a JSON object with [addedField] before its other fields.
func withField(object json.RawMessage) json.RawMessage {
	fields := bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(object), []byte("{")))
	other := []byte(`{"` + addedField + `":true`)
	if !bytes.HasPrefix(fields, []byte("}")) {
		other = append(other, ',')
	}
	return append(other, fields...)
}

// together sends one request several times at once, and once more when all requests have ended.
func (k keyed) together(ctx context.Context) Finding {
	f := Finding{Sink: k.name, Check: "concurrent", Result: Fails,
		Do: "claim the key in a unique index before the work, and answer 409 to its other requests until the first one has ended"}
	key, token := Account+":"+rand.Text(), k.endpoint.Token.Value()
	answers, failed := make([]answer, atOnce), make([]error, atOnce)
	var sending sync.WaitGroup
	start := make(chan struct{})
	for i := range atOnce {
		sending.Go(func() {
			<-start
			answers[i], failed[i] = k.send(ctx, key, token, k.request)
		})
	}
	close(start)
	sending.Wait()
	last, err := k.send(ctx, key, token, k.request)
	if err := errors.Join(append(failed, err)...); err != nil {
		f.Found = "a concurrent request got no answer"
		f.Do = fmt.Sprintf("check that the sink answers %d requests within %s", atOnce, k.timeout)
		return f
	}
	done := map[string]bool{}
	for _, a := range append(answers, last) {
		switch {
		case a.status/100 == 2:
			done[fmt.Sprint(a.status, " ", string(a.body))] = true
		case !slices.Contains(inProgress, a.status):
			f.Found = fmt.Sprintf("answered %d to one of %d concurrent requests with the same key", a.status, atOnce)
			return f
		}
	}
	switch {
	case last.status/100 != 2:
		f.Found = fmt.Sprintf("answered %d to a key after its %d concurrent requests had ended", last.status, atOnce)
		f.Do = "answer with the remembered answer when the first request has ended: pawl would repeat the request until its retries end"
	case len(done) > 1:
		f.Found = fmt.Sprintf("%d different answers to %d concurrent requests with the same key: the sink may have executed the request several times",
			len(done), atOnce)
	default:
		f.Result, f.Do = OK, ""
		f.Found = fmt.Sprintf("the same answer to %d concurrent requests with the same key", atOnce)
	}
	return f
}

// late sends a request with an older version than the version that check has sent.
func (k keyed) late(ctx context.Context) Finding {
	f := Finding{Sink: k.name, Check: "late", Result: Fails,
		Do: "store the highest Pawl-Target-Version of each account, and answer a lower one with 200 without applying it"}
	a, err := k.send(ctx, Account+":"+rand.Text(), k.endpoint.Token.Value(), *k.older)
	switch {
	case err != nil:
		f.Found, f.Do = err.Error(), "run the check again"
	case a.status/100 != 2:
		f.Found = fmt.Sprintf("answered %d to a late request with an older version: its run would park", a.status)
	default:
		f.Result, f.Found, f.Do = OK, fmt.Sprintf("answered %d to a late request with an older version", a.status), ""
	}
	return f
}
