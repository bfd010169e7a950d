package stripe

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// manyCharges is an API with a customer who has the given number of charges, newest first. The oldest charge of each
// thousand is refunded.
func manyCharges(t *testing.T, many int, denied string) (*server, *Client) {
	return newServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
		list, query := strings.TrimPrefix(r.URL.Path, "/v1/"), r.URL.Query()
		data, more := []any{}, false
		switch list {
		case denied:
			w.WriteHeader(http.StatusForbidden)
			return
		case "customers/cus_1":
			reply(t, w, map[string]any{"id": "cus_1", "object": "customer"})
			return
		case "charges":
			first, _ := strconv.Atoi(strings.TrimPrefix(query.Get("starting_after"), "ch_"))
			for n := first + 1; n <= min(first+100, many); n++ {
				refunded := 0
				if n%1000 == 0 {
					refunded = 100
				}
				data = append(data, map[string]any{"id": fmt.Sprintf("ch_%d", n), "object": "charge", "status": "succeeded", "amount_refunded": refunded})
			}
			more = first+100 < many
		case "refunds":
			data = append(data, map[string]any{"id": "re_of_" + query.Get("charge"), "object": "refund"})
		}
		reply(t, w, map[string]any{"object": "list", "data": data, "has_more": more})
	})
}

// pawl reads up to a thousand charges of a customer, and fetches the warnings of the newest hundred. If there are
// more charges, the result reports the limit.
func TestOfCustomer_ManyCharges_BoundIsSaid(t *testing.T) {
	t.Parallel()
	for many, want := range map[int][]string{
		100:  nil,
		1000: {"early fraud warnings of older charges"},
		1001: {"early fraud warnings of older charges", "older charges"},
	} {
		s, c := manyCharges(t, many, "")
		holding, err := c.OfCustomer(t.Context(), "cus_1", "")
		if err != nil {
			t.Fatal(err)
		}
		held, leftOut := holding.Objects, holding.LeftOut
		if got := slices.Sorted(maps.Keys(leftOut)); !slices.Equal(got, want) {
			t.Errorf("of %d charges, left out is %v, want %q", many, leftOut, want)
		}
		if refunded := slices.ContainsFunc(held, func(o Listed) bool { return o.ID == "re_of_ch_1000" }); refunded != (many >= 1000) {
			t.Errorf("of %d charges, the refund of the thousandth is held: %t", many, refunded)
		}
		asked := map[string]int{}
		for _, r := range s.requests() {
			asked[r.URL.Path]++
		}
		if asked["/v1/charges"] != min(many, 1000)/100 || asked["/v1/radar/early_fraud_warnings"] != 100 {
			t.Errorf("of %d charges, asked %v", many, asked)
		}
	}
}

// If the key may not read a list, the result names the list, and pawl requests it only once.
func TestOfCustomer_ListDenied_LeftOut(t *testing.T) {
	t.Parallel()
	for list, says := range map[string]string{
		"radar/early_fraud_warnings": "early fraud warnings", "checkout/sessions": "checkout sessions", "credit_notes": "credit notes",
	} {
		s, c := manyCharges(t, 3, list)
		if held, err := c.OfCustomer(t.Context(), "cus_1", ""); err != nil || len(held.LeftOut) != 1 || held.LeftOut[says] != "the key may not read them" {
			t.Errorf("%s: left out %v, %v", list, held.LeftOut, err)
		}
		asked := slices.DeleteFunc(slices.Clone(s.requests()), func(r *http.Request) bool { return r.URL.Path != "/v1/"+list })
		if len(asked) != 1 {
			t.Errorf("%s: asked %d times, want once", list, len(asked))
		}
	}
}
