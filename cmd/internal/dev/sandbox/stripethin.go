package sandbox

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/tidwall/gjson"
)

// thinObject is the object type of a thin event. A thin event contains no object.
const thinObject = "v2.core.event"

// destinationObject is the object type of an event destination.
const destinationObject = "v2.core.event_destination"

// readThin parses a thin event with the data that a delivery leaves out.
func readThin(said gjson.Result, body json.RawMessage) (stripeEvent, error) {
	created, err := time.Parse(time.RFC3339, said.Get("created").Str)
	e := stripeEvent{id: said.Get("id").Str, kind: said.Get("type").Str, account: said.Get("context").Str,
		created: created.Unix(), live: said.Get("livemode").Bool(), body: body}
	if e.id == "" || err != nil {
		return e, errors.New("want id and created")
	}
	return e, nil
}

// endpointsOf returns the endpoints of one kind: event destinations or webhook endpoints.
func (s *stripeAPI) endpointsOf(destinations bool) (found []json.RawMessage) {
	for _, e := range *s.endpoints.Load() {
		if (gjson.GetBytes(e, "object").Str == destinationObject) == destinations {
			found = append(found, e)
		}
	}
	return found
}

// thinEvents returns one page of the thin events of the last 30 days, newest first.
func (q stripeQuery) thinEvents() (any, error) {
	var all []json.RawMessage
	for _, e := range q.world.thinEvents(q.scope) {
		if !q.missing && time.Since(time.Unix(e.created, 0)) < stripeKinds["events"].kept {
			all = append(all, e.body)
		}
	}
	return q.pageV2("/v2/core/events", all)
}

// thinEvent returns one thin event.
func (q stripeQuery) thinEvent() (any, error) {
	for _, e := range q.world.thinEvents(q.scope) {
		if e.id == q.id && !q.missing {
			return e.body, nil
		}
	}
	return nil, stripeRefusal(http.StatusNotFound, "resource_missing", "id", "No such event: '"+q.id+"'")
}

// thinEvents returns the thin events, newest first.
func (w *stripeWorld) thinEvents(scope stripeScope) (found []stripeEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range scope.scopes() {
		found = append(found, w.thin[s]...)
	}
	slices.SortStableFunc(found, func(a, b stripeEvent) int {
		return cmp.Or(cmp.Compare(b.created, a.created), cmp.Compare(b.id, a.id))
	})
	return found
}

// pageV2 returns one page of a list in the format of API v2, with the path of the next page.
func (q stripeQuery) pageV2(path string, all []json.RawMessage, known ...string) (any, error) {
	if err := q.asks(stripeKind{}, append(known, "limit", "page")...); err != nil {
		return nil, err
	}
	limit, err := strconv.Atoi(cmp.Or(q.form.Get("limit"), "20"))
	begin, err2 := strconv.Atoi(cmp.Or(q.form.Get("page"), "0"))
	if errors.Join(err, err2) != nil || limit < 1 || limit > 100 || begin < 0 || begin > len(all) {
		return nil, stripeRefusal(http.StatusBadRequest, "", "limit", "Invalid limit or page.")
	}
	end := min(begin+limit, len(all))
	answer := map[string]any{"data": append([]json.RawMessage{}, all[begin:end]...), "next_page_url": nil,
		"previous_page_url": nil}
	if end < len(all) {
		next := q.form
		next.Set("limit", strconv.Itoa(limit))
		next.Set("page", strconv.Itoa(end))
		answer["next_page_url"] = path + "?" + next.Encode()
	}
	return answer, nil
}
