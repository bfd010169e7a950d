package adyen_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/adyen"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/webhook/webhooktest"
)

const (
	keyA    = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"
	keyB    = "74f490dd33f7327baecc88b2947c011fc02d014a473aaa33a8ec93e4dc069174"
	fields  = `"pspReference":"P1","merchantAccountCode":"Shop","merchantReference":"a:b\\/c","amount":{"currency":"EUR","value":1130},"eventCode":"AUTHORISATION"`
	item    = `{"NotificationRequestItem":{` + fields + `,"success":"true","eventDate":"2019-05-06T17:15:34.121+02:00"}}`
	other   = `{"NotificationRequestItem":{"pspReference":"P2","originalReference":"P1","eventCode":"CAPTURE","success":true,"amount":{"currency":"EUR","value":"1130"}}}`
	payment = `{"live":"false", "notificationItems":[` + item + `]}`
	batch   = `{"live":true,"notificationItems":[` + item + `,` + other + `]}`
	raw     = `{"type":"balancePlatform.accountHolder.created", "environment":"test","timestamp":"2026-03-01T12:59:58+01:00",` +
		`"data":{"balancePlatform":"BP1","accountHolder":{"id":"AH1"}}}`
)

var at = time.Unix(1_772_366_400, 0)

func TestConformance_Payments(t *testing.T) {
	t.Parallel()
	webhooktest.Run(t, webhooktest.Suite{
		Provider: adyen.Provider,
		Keys:     [2]webhooktest.Key{{Verify: keyA}, {Verify: keyB}},
		Input:    webhook.SignInput{Body: []byte(payment)},
		Want: webhook.Event{
			ID: "P1:AUTHORISATION:true", IDOrigin: webhook.FromBody, Type: "AUTHORISATION", Account: "Shop", Mode: webhook.Test, Object: "P1",
			OccurredAt: time.Date(2019, 5, 6, 15, 15, 34, 121_000_000, time.UTC),
		},
		BodyUnsigned: true, // the signature covers only eight fields
	})
}

func TestConformance_RawBody(t *testing.T) {
	t.Parallel()
	for _, options := range []map[string]string{nil, {"scheme": "raw_body"}} {
		webhooktest.Run(t, webhooktest.Suite{
			Provider: adyen.Provider,
			Settings: webhook.Settings{Options: options},
			Keys:     [2]webhooktest.Key{{Verify: keyA}, {Verify: keyB}},
			Input:    webhook.SignInput{Body: []byte(raw)},
			Want: webhook.Event{
				ID: webhook.HashID([]byte(raw)), IDOrigin: webhook.FromHash, Type: "balancePlatform.accountHolder.created", Account: "BP1",
				Mode: webhook.Test, Object: "AH1", OccurredAt: time.Date(2026, 3, 1, 11, 59, 58, 0, time.UTC),
			},
			Headers:   []string{"HmacSignature"},
			Signature: "HmacSignature",
		})
	}
}

// TestVectors lets the request's shape determine the scheme, and TestVectors_Scheme lets the settings determine it.
func TestVectors(t *testing.T) {
	t.Parallel()
	webhooktest.Vectors(t, adyen.Provider, nil)
}

func TestVectors_Scheme(t *testing.T) {
	t.Parallel()
	webhooktest.Vectors(t, adyen.Provider, func(v webhooktest.Vector) (webhook.Settings, webhook.Request) {
		s := v.Settings()
		s.Options["scheme"] = v.Scheme
		return s, v.Request()
	})
}

func setup(t testing.TB, scheme string, keys ...string) webhook.Verifier {
	t.Helper()
	s := webhook.Settings{Source: "s", Options: map[string]string{"scheme": scheme}}
	for _, key := range keys {
		s.Secrets = append(s.Secrets, webhook.Secret{Label: key[:4], Value: key})
	}
	v, err := adyen.Provider.New(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func signed(t testing.TB, key, body string) *webhook.Request {
	t.Helper()
	out, err := adyen.Provider.Sign(webhook.SignInput{Secret: key, At: at, Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	return &webhook.Request{Header: out.Header, Body: out.Body, ReceivedAt: at}
}

func TestVerify_Batch_EveryItemMustFit(t *testing.T) {
	t.Parallel()
	v := setup(t, "", keyA)
	r := signed(t, keyA, batch)
	if _, err := v.Verify(r); err != nil {
		t.Fatalf("Verify: %v", err)
	}
	events := v.Events(r)
	if len(events) != 2 || events[0].ID != "P1:AUTHORISATION:true" || events[1].ID != "P2:CAPTURE:true" || events[1].Mode != webhook.Live {
		t.Errorf("Events: got %+v, want both items", events)
	}
	for _, e := range events {
		if !strings.Contains(string(e.Body), `"pspReference":"`+e.Object+`"`) || strings.Contains(string(e.Body), "notificationItems") {
			t.Errorf("Body of %s: got %s, want the item's own bytes", e.ID, e.Body)
		}
	}
	for name, c := range map[string]struct {
		old, new string
		want     webhook.Class
	}{
		"first changed":         {`"pspReference":"P1"`, `"pspReference":"P9"`, webhook.NoMatchingSignature},
		"second changed":        {`"CAPTURE"`, `"REFUND"`, webhook.NoMatchingSignature},
		"amount changed":        {`"value":"1130"`, `"value":"1"`, webhook.NoMatchingSignature},
		"success as text":       {`"success":true`, `"success":"true"`, ""},
		"amount as text":        {`"value":1130`, `"value":"1130"`, ""},
		"null reference":        {`"additionalData":{`, `"x":null,"additionalData":{`, ""},
		"unsigned field":        {"2019-05-06T17", "2019-05-07T17", ""},
		"colon moved":           {`"P2"`, `"P2:"`, webhook.NoMatchingSignature},
		"amount an object":      {`"value":"1130"`, `"value":{}`, webhook.NoMatchingSignature},
		"field twice":           {`"eventCode":"CAPTURE"`, `"eventCode":"CAPTURE","eventCode":"REFUND"`, webhook.NoMatchingSignature},
		"absent field twice":    {`"pspReference":"P1"`, `"originalReference":"x","originalReference":"y","pspReference":"P1"`, ""},
		"second spelling":       {`"eventCode":"CAPTURE"`, `"eventCode":"CAPTURE","EventCode":"REFUND"`, ""},
		"second not signed":     {`}]}`, `},` + other + `]}`, webhook.MissingSignature},
		"element without item":  {`}]}`, `},{}]}`, webhook.MalformedBody},
		"element not an object": {`}]}`, `},1]}`, webhook.MalformedBody},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := string(r.Body)
			changed := strings.Replace(text, c.old, c.new, 1)
			if changed == text {
				t.Fatalf("%s is not in %s", c.old, text)
			}
			_, err := v.Verify(&webhook.Request{Body: []byte(changed), ReceivedAt: at})
			if got, _ := webhook.ClassOf(err); got != c.want || (err == nil) != (c.want == "") {
				t.Errorf("got %v, want class %q", err, c.want)
			}
		})
	}
}

// report is an Adyen delivery about a report whose name contains times. key is the HMAC key that signs it.
const (
	reportKey = "6b1f0c9d2e7a45838c1d90ab34cd56ef708192a3b4c5d6e7f80112233445566f"
	report    = `{"live":"false","notificationItems":[{"NotificationRequestItem":{"additionalData":{"hmacSignature":"1eizxCe7arRBsW5jvPfToAzEy0tbSpo83J7GxXsDvjs="},"amount":{"currency":"EUR","value":0},"eventCode":"REPORT_AVAILABLE","eventDate":"2026-11-03T04:00:00+01:00","merchantAccountCode":"AcmeECOM","merchantReference":"","pspReference":"settlement_report_2026-11-01T00:00:00_2026-11-02T23:59:59.csv","reason":"https://ca-test.adyen.com/reports/download/MerchantAccount/AcmeECOM/settlement_report_2026-11-01T00:00:00_2026-11-02T23:59:59.csv","success":"true"}}]}`
)

// pawl accepts an event about a report whose name contains times: a rejection would block the endpoint's queue for 30
// days.
func TestEvents_ReportNamedByTimes(t *testing.T) {
	t.Parallel()
	v := setup(t, "", reportKey)
	r := &webhook.Request{Body: []byte(report), ReceivedAt: at}
	webhooktest.CheckAuthentic(t, v, r)
	e := v.Events(r)[0]
	if e.Problem != "" || e.Type != "REPORT_AVAILABLE" || e.Account != "AcmeECOM" ||
		e.ID != "settlement_report_2026-11-01T00:00:00_2026-11-02T23:59:59.csv:REPORT_AVAILABLE:true" {
		t.Errorf("got %+v", e)
	}
}

// A signed item that can be parsed in two ways, or not at all, is parked. All ways to parse it result in one event,
// and it replaces no other event.
func TestEvents_SignedItemOfTwoReadings_Parked(t *testing.T) {
	t.Parallel()
	v := setup(t, "", keyA)
	authentic := v.Events(signed(t, keyA, payment))[0]
	for name, c := range map[string]struct{ item, problem string }{
		"cut otherwise":      {strings.NewReplacer(`"P1"`, `"P1:"`, `"Shop"`, `"a"`, `"a:b\\/c"`, `"b\\/c"`, `"pspReference"`, `"originalReference":"Shop","pspReference"`).Replace(item), "ambiguous_fields: pspReference contains a colon or a quote"},
		"colon in a report":  {strings.NewReplacer("AUTHORISATION", "REPORT_AVAILABLE", `"P1"`, `"P:1"`).Replace(item), "ambiguous_fields: pspReference contains a colon or a quote"},
		"quote in a report":  {strings.NewReplacer("AUTHORISATION", "REPORT_AVAILABLE", `"P1"`, `"P\"1"`, `"a:b\\/c"`, `"r"`).Replace(item), "ambiguous_fields: pspReference contains a colon or a quote"},
		"amount an object":   {strings.Replace(item, "1130", `{}`, 1), "unknown_envelope: amount.value is not text, a number or a boolean"},
		"absent field twice": {strings.Replace(item, `"pspReference"`, `"originalReference":"x","originalReference":"y","pspReference"`, 1), "duplicate_key"},
		"second spelling":    {strings.Replace(item, `"eventCode"`, `"EventCode":"REFUND","eventCode"`, 1), `ambiguous_key: "eventCode"`},
		"no reference":       {strings.Replace(item, `"pspReference":"P1",`, "", 1), "missing_event_id: pspReference and eventCode"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := signed(t, keyA, `{"live":"true","notificationItems":[`+c.item+`]}`)
			webhooktest.CheckAuthentic(t, v, r)
			e := v.Events(r)[0]
			if e.Problem != c.problem || e.IDOrigin != webhook.FromHash || e.Account != "" {
				t.Errorf("got %+v, want it parked under a hash because of %q", e, c.problem)
			}
			if name == "cut otherwise" && e.ID != webhook.HashID(authentic.Signed) {
				t.Errorf("ID %s, want the hash of the signed text", e.ID)
			}
		})
	}
}

func TestVerify_Shape(t *testing.T) {
	t.Parallel()
	v := setup(t, "", keyA)
	for name, c := range map[string]struct {
		v    webhook.Verifier
		body string
		want webhook.Class
	}{
		"nothing signed":              {v, raw, webhook.MissingHeader},
		"no JSON":                     {v, "{", webhook.MissingHeader},
		"empty":                       {v, "", webhook.MissingHeader},
		"no items":                    {v, `{"notificationItems":[]}`, webhook.MissingSignature},
		"items no array":              {v, `{"notificationItems":{}}`, webhook.MalformedBody},
		"platform body, payments set": {setup(t, "payments_item", keyA), raw, webhook.MalformedBody},
		"payments body, raw set":      {setup(t, "raw_body", keyA), payment, webhook.MissingHeader},
	} {
		_, err := c.v.Verify(&webhook.Request{Body: []byte(c.body), ReceivedAt: at})
		if got, _ := webhook.ClassOf(err); got != c.want {
			t.Errorf("%s: got %v, want class %q", name, err, c.want)
		}
	}
}

// The bodies have the shapes of Adyen's webhook models: platform, management and tokenization.
func TestEvents_RawBody_AccountAndObject(t *testing.T) {
	t.Parallel()
	v := setup(t, "raw_body", keyA)
	for body, want := range map[string][2]string{
		`{"type":"balancePlatform.transfer.created","data":{"balancePlatform":"BP1","id":"T1"}}`:                         {"BP1", "T1"},
		`{"type":"paymentMethod.created","data":{"merchantId":"M1","id":"PM1"}}`:                                         {"M1", "PM1"},
		`{"type":"recurring.token.created","eventId":"P1","data":{"merchantAccount":"M1","storedPaymentMethodId":"S1"}}`: {"M1", "S1"},
	} {
		got := v.Events(signed(t, keyA, body))[0]
		if got.Account != want[0] || got.Object != want[1] || got.Problem != "" {
			t.Errorf("%s: account %q, object %q, problem %q; want %q", body, got.Account, got.Object, got.Problem, want)
		}
	}
}

func TestNew_Keys(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		key, scheme string
		ok          bool
	}{
		"upper case":     {keyA, "", true},
		"lower case":     {keyB, "payments_item", true},
		"31 bytes":       {keyA[2:], "", false},
		"no hex":         {strings.Repeat("g", 64), "", false},
		"unknown scheme": {keyA, "platform", false},
	} {
		_, err := adyen.Provider.New(webhook.Settings{
			Source: "shop", Secrets: []webhook.Secret{{Label: "a", Value: c.key}}, Options: map[string]string{"scheme": c.scheme},
		})
		if (err == nil) != c.ok {
			t.Errorf("%s: got %v, want accepted=%t", name, err, c.ok)
		}
		if err != nil && (!strings.Contains(err.Error(), "shop") || strings.Contains(err.Error(), c.key)) {
			t.Errorf("%s: %q must name the source and not the key", name, err)
		}
	}
}

func FuzzVerify(f *testing.F) {
	webhooktest.FuzzVerify(f, setup(f, "", keyA), signed(f, keyA, raw), "HmacSignature")
}

func FuzzEvents(f *testing.F) {
	webhooktest.FuzzEvents(f, setup(f, "raw_body", keyA), signed(f, keyA, raw))
}

func FuzzPaymentsEvents(f *testing.F) {
	webhooktest.FuzzEvents(f, setup(f, "payments_item", keyA), signed(f, keyA, batch))
}

// FuzzPaymentsVerify changes an item and checks that Verify rejects any change of the eight signed fields.
func FuzzPaymentsVerify(f *testing.F) {
	v := setup(f, "", keyA)
	good := signed(f, keyA, payment)
	f.Add(good.Body)
	f.Add(signed(f, keyB, payment).Body)
	f.Add([]byte(batch))
	want := v.Events(good)[0]
	f.Fuzz(func(t *testing.T, body []byte) {
		r := &webhook.Request{Body: body, ReceivedAt: at}
		if _, err := v.Verify(r); err != nil {
			if _, ok := webhook.ClassOf(err); !ok {
				t.Fatalf("%T is no *webhook.Error", err)
			}
			return
		}
		for _, got := range v.Events(r) {
			if got.Problem == "" && (got.ID != want.ID || got.Account != want.Account) {
				t.Fatalf("admitted: %+v, signed was %+v", got, want)
			}
		}
	})
}
