package mask_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/operator/mask"
)

func TestMask_WhatIsShown(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		// Visible: structure, IDs, words, times and amounts under their keys.
		`{"id":"evt_1Abc","type":"invoice.paid","livemode":true,"x":null,"created":1700000000}`: `{"id":"evt_1Abc","type":"invoice.paid","livemode":true,"x":null,"created":1700000000}`,
		`{"currency":"usd","amount_paid":49900,"status":"paid","api_version":"2024-06-20"}`:     `{"currency":"usd","amount_paid":49900,"status":"paid","api_version":"2024-06-20"}`,
		`{"lines":{"data":[{"price":{"id":"price_1"},"quantity":3}]},"subscription":"sub_9"}`:   `{"lines":{"data":[{"price":{"id":"price_1"},"quantity":3}]},"subscription":"sub_9"}`,
		`{"created_at":"2026-11-22T08:00:00Z","updatedAt":"2026-11-22T08:00:00.123+01:00"}`:     `{"created_at":"2026-11-22T08:00:00Z","updatedAt":"2026-11-22T08:00:00.123+01:00"}`,
		`{"uuid":"0190a1b2-0000-7000-8000-000000000001","id":12345678901234567890}`:             `{"uuid":"0190a1b2-0000-7000-8000-000000000001","id":12345678901234567890}`,
		// Masked: values that may be personal data, and values under a key for personal data.
		`{"customer_name":"Ada Lovelace","city":"London","note":"call"}`:                          `{"customer_name":"(12 characters)","city":"(6 characters)","note":"(4 characters)"}`,
		`{"customer_email":"ada@example.com","whatever":"ada@example.com","type":"ada@x.com"}`:    `{"customer_email":"(15 characters)","whatever":"(15 characters)","type":"(9 characters)"}`,
		`{"type":"Ada","status":"Ada Lovelace","id":"ada","object":"+4912345"}`:                   `{"type":"(3 characters)","status":"(12 characters)","id":"(3 characters)","object":"(8 characters)"}`,
		`{"phone":4912345678,"seats":5,"card":{"last4":4242,"type":"visa","amount":1,"ok":true}}`: `{"phone":"(a number)","seats":"(a number)","card":{"last4":"(a number)","type":"(4 characters)","amount":"(a number)","ok":true}}`,
		`{"metadata":{"status":"vip","customer":"cus_1","created":1}}`:                            `{"metadata":{"status":"(3 characters)","customer":"cus_1","created":"(a number)"}}`,
		`{"token":"0190a1b2-0000-7000-8000-000000000001","birth_at":"1815-12-10T00:00:00Z"}`:      `{"token":"(36 characters)","birth_at":"(20 characters)"}`,
		`{"ada@example.com":1,"billingDetails":{"amount":1}}`:                                     `{"(15 characters)":"(a number)","billingDetails":{"amount":"(a number)"}}`,
		`{"description":"in_person meeting with ada","memo":"in_person"}`:                         `{"description":"(26 characters)","memo":"(9 characters)"}`,
		`["ada",["b"],{"c":"é😀"}]`:                                                                `["(3 characters)",["(1 characters)"],{"c":"(2 characters)"}]`,
		`"ada"`:                                                                                   `"(3 characters)"`,
		// A form, and JSON inside a string.
		`From=%2B4912345&Body=hello&CallStatus=completed`: `{"Body":["(5 characters)"],"CallStatus":["completed"],"From":["(8 characters)"]}`,
		`payload=%7B%22a%22%3A1%7D`:                       `{"payload":["(7 characters)"]}`,
	} {
		masked, err := mask.Payload([]byte(body))
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		if got := compact(t, masked); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", body, got, want)
		}
	}
}

func compact(t *testing.T, b []byte) string {
	t.Helper()
	var out strings.Builder
	for line := range strings.Lines(string(b)) {
		out.WriteString(strings.TrimSpace(line))
	}
	if !json.Valid(b) {
		t.Errorf("not JSON: %s", b)
	}
	return strings.ReplaceAll(out.String(), `": `, `":`)
}

func TestMask_OfNoKnownForm_NothingIsShown(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)
	for _, body := range []string{"", "ada", "<name>ada</name>", "hello ada = you", `{"a":1`, `{"a":1}{"b":2}`, "\xff\xfe", deep, `{"a":"x"} trailing`} {
		if masked, err := mask.Payload([]byte(body)); err == nil {
			t.Errorf("%.40q: %s", body, masked)
		}
	}
}

// The fuzzer puts a text into a payload beside visible values; the masked payload must not contain it.
func FuzzMask(f *testing.F) {
	for _, seed := range []string{"Ada Lovelace", "ada@example.com", "+49 123", "1815-12-10", "cus", "\"", "\\u0000"} {
		f.Add("note", seed)
		f.Add("type", seed)
	}
	f.Fuzz(func(t *testing.T, key, value string) {
		if strings.Contains(key, "Canary") {
			t.Skip("the key itself would be found")
		}
		value = "Canary " + value // so that it is no ID, word or time
		body, err := json.Marshal(map[string]any{key: value, "deep": []any{map[string]any{key: value}}})
		if err != nil {
			t.Skip("no JSON can hold it")
		}
		masked, err := mask.Payload(body)
		if err != nil || !json.Valid(masked) || strings.Contains(string(masked), "Canary") {
			t.Errorf("%s: %s, %v", body, masked, err)
		}
	})
}

func ExamplePayload() {
	masked, _ := mask.Payload([]byte(`{"id":"in_123","status":"paid","amount_paid":49900,"customer_email":"ada@example.com"}`))
	fmt.Println(string(masked))
	// Output:
	// {
	//   "id": "in_123",
	//   "status": "paid",
	//   "amount_paid": 49900,
	//   "customer_email": "(15 characters)"
	// }
}
