package forge

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Thin returns the thin event of a Stripe snapshot event. It has its own ID, and names its snapshot event and the
// object.
func Thin(e Event) (Event, error) { return thin(e, e.ID+"_thin") }

func thin(e Event, id string) (Event, error) {
	var said struct {
		Created  int64
		Livemode bool
		Account  string
		Data     struct{ Object struct{ ID, Object string } }
	}
	if err := json.Unmarshal(e.Body, &said); err != nil {
		return Event{}, fmt.Errorf("thin event of %s: %w", e.ID, err)
	}
	of := said.Data.Object
	body := map[string]any{
		"id": id, "object": "v2.core.event", "type": "v1." + e.Type, "livemode": said.Livemode, "snapshot_event": e.ID,
		"created": time.Unix(said.Created, 0).UTC().Format("2006-01-02T15:04:05.000Z"),
		"related_object": map[string]string{"id": of.ID, "type": of.Object,
			"url": "/v1/" + strings.ReplaceAll(of.Object, ".", "/") + "s/" + of.ID},
	}
	if said.Account != "" {
		body["context"] = said.Account
	}
	made := Event{ID: id, Type: "v1." + e.Type, Account: e.Account, ContentType: e.ContentType, Snapshot: e.Body}
	if e.Whole != nil {
		made.Snapshot = e.Whole
	}
	var err error
	made.Body, err = json.Marshal(body)
	return made, err
}
