package sandbox

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// service describes one kind of request that the sandbox accepts.
type service struct {
	name, path string
	methods    []string
	// status is the answer to an accepted request.
	status int
	// keyed is set if an Idempotency-Key identifies a request. Otherwise the key of the record identifies the request.
	keyed bool
	// read converts a request to a record. Its error is returned to the sender.
	read func(r *http.Request, body []byte) (record, error)
}

var received = []service{
	{workspaces, "/workspaces/{account}", []string{http.MethodPut}, http.StatusOK, true, readTarget},
	{finance, "/entries", post, http.StatusCreated, true, readEntry},
	{events, "/events", post, http.StatusAccepted, false, readCloudEvent},
	{relayed, "/relayed", post, http.StatusAccepted, false, readRelayed},
	{notifications, "/notifications", post, http.StatusAccepted, true, readNotification},
	{flowSinks, "/sinks/{sink}/{path...}",
		[]string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}, http.StatusOK,
		true, readSink},
}

var post = []string{http.MethodPost}

func readTarget(r *http.Request, body []byte) (record, error) {
	object, err := jsonObject(body)
	rec := record{Account: r.PathValue("account"), Body: object}
	mode, version := rec.target()
	for header, want := range map[string]string{"Pawl-Mode": mode,
		"Pawl-Target-Version": strconv.FormatInt(version, 10)} {
		if got := r.Header.Get(header); err == nil && got != "" && got != want {
			err = fmt.Errorf("the header %s says %q, and the body %q", header, got, want)
		}
	}
	return rec, err
}

func readEntry(_ *http.Request, body []byte) (record, error) {
	object, err := jsonObject(body)
	return record{Account: gjson.GetBytes(object, "account").Str, Body: object}, err
}

// readCloudEvent parses a CloudEvent: https://github.com/cloudevents/spec, HTTP binding §3. An event with a known ID is
// a duplicate even if its body differs.
func readCloudEvent(r *http.Request, body []byte) (record, error) {
	object, err := jsonObject(body)
	event := gjson.ParseBytes(object)
	rec := record{Key: event.Get("id").Str, Account: event.Get("account").Str, Body: object}
	if id := r.Header.Get("Ce-Id"); id != "" {
		rec.Key, rec.Account = id, cmp.Or(r.Header.Get("Ce-Account"), rec.Account)
	} else {
		rec.Account = cmp.Or(rec.Account, event.Get("data.account").Str)
	}
	if err == nil && rec.Key == "" {
		err = errors.New("no CloudEvents ID: want id in the body or the header ce-id")
	}
	return rec, err
}

// readRelayed accepts an event of any provider with its exact bytes. An event with a known webhook-id is a duplicate:
// https://github.com/standard-webhooks/standard-webhooks. The signature is not checked.
func readRelayed(r *http.Request, body []byte) (record, error) {
	rec := record{Key: r.Header.Get("Webhook-Id"), Account: r.Header.Get("Pawl-Account")}
	if rec.Key == "" {
		return rec, errors.New("no header webhook-id")
	}
	line, err := oneLine(body)
	if err != nil { // for example a form
		line, err = json.Marshal(string(body))
	}
	rec.Body = line
	return rec, err
}

func readNotification(_ *http.Request, body []byte) (record, error) {
	object, err := jsonObject(body)
	return record{Body: object}, err
}

// readSink accepts any request of a flow. The body of the record contains the sink, the method, the path and the JSON
// body of the request.
func readSink(r *http.Request, body []byte) (rec record, err error) {
	in := struct {
		Sink   string          `json:"sink"`
		Method string          `json:"method"`
		Path   string          `json:"path"`
		Body   json.RawMessage `json:"body,omitempty"`
	}{Sink: r.PathValue("sink"), Method: r.Method,
		Path: strings.TrimPrefix(r.URL.EscapedPath(), "/sinks/"+r.PathValue("sink"))}
	if len(body) > 0 {
		if in.Body, err = oneLine(body); err != nil {
			return rec, err
		}
	}
	rec.Body, err = json.Marshal(in)
	return rec, err
}

// sinkAnswer returns the answer to a request of a flow: the fields of its body, and an "id" made from the key, so that
// a repeated request gets the same answer.
func sinkAnswer(rec record) map[string]any {
	sum := sha256.Sum256([]byte(rec.Key))
	answer := map[string]any{"id": "sandbox_" + hex.EncodeToString(sum[:6])}
	gjson.GetBytes(rec.Body, "body").ForEach(func(name, value gjson.Result) bool {
		if name.Str != "" { // an object, and not a list
			answer[name.Str] = json.RawMessage(value.Raw)
		}
		return true
	})
	return answer
}

// jsonObject returns the body in the form of a journal.
func jsonObject(body []byte) (json.RawMessage, error) {
	line, err := oneLine(body)
	if err == nil && line[0] != '{' {
		err = errors.New("the body is not a JSON object")
	}
	return line, err
}
