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

// service is one kind of requests that the sandbox takes.
type service struct {
	name, pattern string
	// status answers a request that was taken.
	status int
	// keyed is set where an Idempotency-Key identifies a request; else the record's own key does.
	keyed bool
	// read says how a request stands in the journal; its error is for the sender.
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

// readCloudEvent reads a CloudEvent: https://github.com/cloudevents/spec, HTTP binding §3. Its ID makes a repeated one
// a duplicate, whatever it holds.
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

// readRelayed reads an event of any provider, in the provider's bytes. Its webhook-id makes a repeated one a
// duplicate: https://github.com/standard-webhooks/standard-webhooks. The signature is not checked.
func readRelayed(r *http.Request, body []byte) (record, error) {
	rec := record{Key: r.Header.Get("Webhook-Id"), Account: r.Header.Get("Pawl-Account")}
	if rec.Key == "" {
		return rec, errors.New("no header webhook-id")
	}
	line, err := oneLine(body)
	if err != nil { // a form, say
		line, err = json.Marshal(string(body))
	}
	rec.Body = line
	return rec, err
}

// jsonObject returns body as it stands in the journal.
func jsonObject(body []byte) (json.RawMessage, error) {
	line, err := oneLine(body)
	if err == nil && line[0] != '{' {
		err = errors.New("the body is not a JSON object")
	}
	return line, err
}
