package console_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema/receipt"
)

// A decision about the events of a list concerns the events between its times, also if they are durations before now.
func TestDecideMany_TimesOfTheList_AreKept(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	receipts := receipt.NewStore(s.db, receipt.Options{})
	t.Cleanup(receipts.Close)
	s.operator.Outlook = process.Outlook(s.cfg, s.db, receipts)
	var inserted []time.Time // the list is ordered by the time of the insertion
	for i := range 3 {
		insertPaid(t, receipts, fmt.Sprint("evt_", i))
		<-time.After(20 * time.Millisecond)
		inserted = append(inserted, time.Now())
		<-time.After(20 * time.Millisecond)
	}
	s.exec(`update receipts set status = 'dead', reason = 'effect_failed: x'`)
	ada := s.as("ada", role.Operator)
	// linked returns the page of the decision to which the list of a window links.
	linked := func(window url.Values) (link string, page *answer) {
		t.Helper()
		list := ada.get("/events?status=dead&" + window.Encode())
		found := regexp.MustCompile(`href="(/decide/many\?[^"]*verb=skip[^"]*)"`).FindStringSubmatch(list.text)
		if found == nil {
			t.Fatalf("no link to a decision: %s", list.text)
		}
		link = html.UnescapeString(found[1])
		return link, ada.get(link)
	}
	_, page := linked(url.Values{"since": {inserted[0].UTC().Format(time.RFC3339Nano)}, "until": {inserted[1].UTC().Format(time.RFC3339Nano)}})
	if page.StatusCode != http.StatusOK || !strings.Contains(page.text, "evt_1") || strings.Contains(page.text, "evt_0") || strings.Contains(page.text, "evt_2") {
		t.Errorf("the decision is about %d: %s, want evt_1", page.StatusCode, page.text)
	}
	if link, page := linked(url.Values{"since": {"2h"}}); strings.Contains(link, "since=2h") || !strings.Contains(page.text, "3 events") {
		t.Errorf("%s is about %s, want three events since an absolute time", link, page.text)
	}
	if got := ada.get("/decide/many?status=dead&verb=skip&since=yesterday"); got.StatusCode != http.StatusBadRequest || !strings.Contains(got.text, "is not a time") {
		t.Errorf("a wrong time is answered %d: %s", got.StatusCode, got.text)
	}
}
