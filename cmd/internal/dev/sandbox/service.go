package sandbox

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/tidwall/gjson"
)

// service describes one kind of request that the sandbox accepts.
type service struct {
	name, pattern string
	// status is the answer to an accepted request.
	status int
	// keyed is set if an Idempotency-Key identifies a request. Otherwise the key of the record identifies the request.
	keyed bool
	// read converts a request to a record. Its error is returned to the sender.
	read func(r *http.Request, body []byte) (record, error)
}

var received = []service{
	{workspaces, "PUT /workspaces/{account}", http.StatusOK, true, readTarget},
	{finance, "POST /entries", http.StatusCreated, true, readEntry},
	{events, "POST /events", http.StatusAccepted, false, readCloudEvent},
	{relayed, "POST /relayed", http.StatusAccepted, false, readRelayed},
}

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

// jsonObject returns the body in the form of a journal.
func jsonObject(body []byte) (json.RawMessage, error) {
	line, err := oneLine(body)
	if err == nil && line[0] != '{' {
		err = errors.New("the body is not a JSON object")
	}
	return line, err
}
