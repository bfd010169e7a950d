package forge

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// mostAtOnce is how many events a stand-in is told of by one request.
const mostAtOnce = 100

// Tell gives the events to the stand-in of Stripe's API at this URL before they are delivered: from then on the API
// answers with the objects that the events carry. Tell leaves out thin events and those of other providers, since
// they carry no object of Stripe's.
func Tell(ctx context.Context, api string, events []Event) error {
	var told []json.RawMessage
	for _, e := range events {
		whole := e.Body
		if e.Whole != nil {
			whole = e.Whole
		}
		var envelope struct{ Object string }
		if json.Unmarshal(whole, &envelope) == nil && envelope.Object == "event" {
			told = append(told, whole)
		}
	}
	for batch := range slices.Chunk(told, mostAtOnce) {
		if err := post(ctx, strings.TrimRight(api, "/")+"/_events", batch); err != nil {
			return fmt.Errorf("tell the stand-in of Stripe's API: %w", err)
		}
	}
	return nil
}

// Fault has the sandbox fail, whose stand-in of Stripe's API is at this URL. `GET /_faults` lists what a fault can be.
func Fault(ctx context.Context, api string, fault map[string]any) error {
	sandbox, found := strings.CutSuffix(strings.TrimRight(api, "/"), "/stripe")
	if !found {
		return fmt.Errorf("no sandbox is there that could fail: run `pawl dev`")
	}
	if err := post(ctx, sandbox+"/_faults", fault); err != nil {
		return fmt.Errorf("have the sandbox fail: %w", err)
	}
	return nil
}

func post(ctx context.Context, url string, what any) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	body, err := json.Marshal(what)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if resp.StatusCode/100 != 2 {
		return cmp.Or(err, fmt.Errorf("%s answered %s: %s", url, resp.Status, said))
	}
	return err
}
