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

// mostAtOnce is how many events one request to the simulated Stripe may contain.
const mostAtOnce = 100

// Tell sends the events to the simulated Stripe API at this URL before they are delivered. From then on, the API
// returns the events and their objects. A thin event is recorded together with its snapshot event. Tell ignores
// events of other providers.
func Tell(ctx context.Context, api string, events []Event) error {
	var told []json.RawMessage
	for _, e := range events {
		whole := e.Body
		if e.Whole != nil {
			whole = e.Whole
		}
		for _, body := range [][]byte{e.Snapshot, whole} {
			var envelope struct{ Object string }
			known := json.Unmarshal(body, &envelope) == nil
			if known && (envelope.Object == "event" || envelope.Object == "v2.core.event") {
				told = append(told, body)
			}
		}
	}
	for batch := range slices.Chunk(told, mostAtOnce) {
		if err := post(ctx, strings.TrimRight(api, "/")+"/_events", batch); err != nil {
			return fmt.Errorf("send events to the simulated Stripe API: %w", err)
		}
	}
	return nil
}

// Fault configures a fault of the sandbox with the simulated Stripe API at this URL. `GET /_faults` lists the
// possible faults.
func Fault(ctx context.Context, api string, fault map[string]any) error {
	sandbox, found := strings.CutSuffix(strings.TrimRight(api, "/"), "/stripe")
	if !found {
		return fmt.Errorf("there is no sandbox: run `pawl dev`")
	}
	if err := post(ctx, sandbox+"/_faults", fault); err != nil {
		return fmt.Errorf("configure a fault in the sandbox: %w", err)
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
