package sinkcheck

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/cmd/internal/config"
)

// keyed checks an API with idempotency keys.
type keyed struct {
	name, key string // the name of the sink, and its key in the configuration
	endpoint  config.Endpoint
	timeout   time.Duration
	client    *http.Client
	// request is sent first. other is then sent with the same key, and must be rejected.
	request, other activities.Request
	// added is set if other has a field that the API may not know.
	added bool
	// writes is set if the API executes the requests. older is then a request with an older version, or nil, and
	// effects describes the state of the API afterwards.
	writes  bool
	older   *activities.Request
	effects string
}

// answer is the response to a request.
type answer struct {
	status int
	body   []byte
}

func (k keyed) check(ctx context.Context) (found []Finding) {
	find := func(check, result, what, do string) {
		found = append(found, Finding{Sink: k.name, Check: check, Result: result, Found: what, Do: do})
	}
	key := Account + ":" + rand.Text()
	token := k.endpoint.Token.Value()
	first, err := k.send(ctx, key, token, k.request)
	if err != nil {
		find("reach", Fails, err.Error(), "check "+k.key+".url, the network between, and the certificate")
		return found
	}
	find("reach", OK, "answers", "")
	switch {
	case first.status == http.StatusUnauthorized || first.status == http.StatusForbidden:
		find("token", Fails, fmt.Sprintf("answered %d: it does not accept pawl's credentials", first.status),
			"check "+k.key+".token: effects would wait until it is right")
		return found
	case first.status/100 != 2:
		find("token", Fails, fmt.Sprintf("answered %d to %s %s: such an effect would not be done", first.status,
			k.request.Method, k.request.Path), k.unusual(first.status))
		return found
	case token == "":
		find("token", Note, "no token is configured, and the sink accepts pawl", "give the sink one with "+k.key+
			".token, unless the network lets only pawl reach it")
	default:
		find("token", OK, fmt.Sprintf("answered %d", first.status), "")
	}
	again, err := k.send(ctx, key, token, k.request)
	switch repeat := "answer a repeated key with the remembered answer, and execute the request once: pawl repeats unanswered requests"; {
	case err != nil:
		find("repeat", Fails, err.Error(), "run the check again")
		return found
	case again.status/100 != 2:
		find("repeat", Fails, fmt.Sprintf("answered %d, and then %d to the same key", first.status, again.status),
			repeat)
	case !bytes.Equal(again.body, first.body) || again.status != first.status:
		find("repeat", Fails, "another answer to the same key: the sink may have executed the request twice", repeat)
	default:
		find("repeat", OK, "the same answer to the same key", "")
	}
	other, err := k.send(ctx, key, token, k.other)
	switch conflict := "answer 409 to a repeated key with another body: it is never the same effect"; {
	case err != nil:
		find("conflict", Fails, err.Error(), "run the check again")
		return found
	case other.status == http.StatusConflict:
		find("conflict", OK, "answered 409 to another body under the key", "")
	case k.added && other.status/100 == 4:
		find("conflict", Note, fmt.Sprintf("answered %d to the same key with the additional field %s", other.status,
			addedField), "this is correct if the sink rejects unknown fields before it reads the key: "+conflict)
	default:
		find("conflict", Fails, fmt.Sprintf("answered %d to another body under the key", other.status), conflict)
	}
	if token != "" {
		found = append(found, k.strangers(ctx, key))
	}
	return found
}

// unusual returns the action to take after the first request got this status.
func (k keyed) unusual(status int) string {
	if status == http.StatusConflict {
		return "answer 409 only to a known key: with another body, or while its first request is in progress"
	}
	return "check the path behind " + k.key + ".url, and the accepted requests, against docs/sinks.openapi.yaml"
}

// strangers sends the same request with a wrong token. A sink that accepts the token does nothing new, because it
// already knows the key.
func (k keyed) strangers(ctx context.Context, key string) Finding {
	f := Finding{Sink: k.name, Check: "strangers", Result: Note}
	stranger, err := k.send(ctx, key, "no-"+rand.Text(), k.request)
	if err != nil {
		f.Found, f.Do = err.Error(), "run the check again"
		return f
	}
	f.Found = fmt.Sprintf("answered %d to a wrong token", stranger.status)
	if stranger.status/100 == 2 {
		f.Do = "have the API check the token, unless something before it does"
	} else {
		f.Result = OK
	}
	return f
}

func (k keyed) send(ctx context.Context, key, token string, r activities.Request) (answer, error) {
	body, err := json.Marshal(r.Body)
	if err != nil {
		return answer{}, err
	}
	header := map[string]string{"Idempotency-Key": key, "Content-Type": "application/json"}
	maps.Copy(header, r.Header)
	if !k.writes {
		header[Header] = "true"
	}
	if token != "" {
		header["Authorization"] = "Bearer " + token
	}
	return send(ctx, k.client, k.timeout, k.request.Method, k.endpoint.URL+k.request.Path, header, body)
}
