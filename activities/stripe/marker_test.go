package stripe

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

// marker is an address that the tests put into a field of a payload.
const marker = "marker-7f3a@personal.example"

// keptAsSent lists, by the last element of the path, the texts that facts contain unchanged, with the reason.
var keptAsSent = map[string]string{
	"price":               "the ID of a price that was made as a plan is free text",
	"price.id":            "as above",
	"plan":                "as above",
	"plan.id":             "as above",
	"product":             "the ID of a product is free text",
	"price.product":       "as above",
	"plan.product":        "as above",
	"lookup_key":          "you name prices",
	"metadata.account":    "you name accounts",
	"client_reference_id": "you name accounts",
	"metadata.plan":       "you name plans",
	"metadata.price":      "as above",
	"object.number":       "the number of an invoice, which customers quote",
}

// places calls visit with each value of a document: the path of the value, and a function that replaces it.
func places(path string, v any, visit func(path string, is any, replace func(any))) {
	switch v := v.(type) {
	case document:
		for name, inner := range v {
			at := strings.TrimPrefix(path+"."+name, ".")
			visit(at, inner, func(other any) { v[name] = other })
			v[name] = inner
			places(at, inner, visit)
		}
	case []any:
		for i, inner := range v {
			at := fmt.Sprintf("%s.%d", path, i)
			visit(at, inner, func(other any) { v[i] = other })
			v[i] = inner
			places(at, inner, visit)
		}
	}
}

// Facts and reasons are stored in Temporal's histories, in lists and in logs. The test replaces each field of each
// event by an address, as text and inside other types.
func TestRead_MarkerInEachField_InNoReasonAndNoFact(t *testing.T) {
	t.Parallel()
	eachEvent(t, func(t *testing.T, _, _ string, event document) {
		tried := 0
		places("", event, func(path string, is any, replace func(any)) {
			for _, value := range []any{
				marker, " " + marker, document{"id": marker, "object": marker, marker: marker}, []any{marker, document{"id": marker}},
				strings.Repeat(marker, 40), marker + "\x00",
			} {
				tried++
				replace(value)
				facts, err := Read(encode(t, event), fact.Subject{Provider: "stripe", Mode: "live", EventID: "evt_1", EventType: "invoice.paid", ReceiptID: "r_1"})
				if err != nil && strings.Contains(err.Error(), "marker-7f3a") {
					t.Errorf("%s as %.60v: the reason repeats the value: %v", path, value, err)
				}
				if told := string(encode(t, facts)); strings.Contains(told, "marker-7f3a") && !kept(path) {
					t.Errorf("%s as %.60v: a fact has it: %s", path, value, told)
				}
			}
			replace(is)
		})
		if tried < 50 {
			t.Errorf("only %d values were tried", tried)
		}
	})
}

func kept(path string) bool {
	for end := range keptAsSent {
		if strings.HasSuffix("."+path, "."+end) {
			return true
		}
	}
	return false
}

// A reason contains the field, and the type and the length of its value, but not the value.
func TestRead_WrongType_ReasonNamesTypeAndLength(t *testing.T) {
	t.Parallel()
	for value, want := range map[any]string{
		marker:                            "invoice.amount_due: is a string of 30 bytes, not a whole number",
		12.5:                              "invoice.amount_due: is a number of 4 bytes, not a whole number",
		true:                              "invoice.amount_due: is a boolean of 4 bytes, not a whole number",
		-1:                                "invoice.amount_due: is negative",
		1_000_000_000_000_001:             "invoice.amount_due: is a number beyond 1000000000000000",
		uint64(9_223_372_036_854_775_807): "invoice.amount_due: is a number beyond 1000000000000000",
	} {
		event := invoiceEvent(t, dahlia, "invoice.paid")
		objectOf(event)["amount_due"] = value
		if _, err := Read(encode(t, event), subjectOf(event)); err == nil || err.Error() != "unreadable_payload: "+want {
			t.Errorf("%v: %v, want %s", value, err, want)
		}
	}
}
