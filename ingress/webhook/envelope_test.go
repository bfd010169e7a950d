package webhook_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

func TestReadEnvelope_Problem(t *testing.T) {
	t.Parallel()
	keys := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"k%d":1,`, i)
		}
		return b.String()
	}
	nested := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	for name, c := range map[string]struct {
		body, problem string
		readable      bool
	}{
		"object":                 {` {"a":1} `, "", true},
		"every kind of value":    {`{"a":[null,true,false,-0.5e+7,0,"\n\u00e9\ud83d\ude00",{}],"b":{}}`, "", true},
		"empty":                  {"", "empty_body", false},
		"white space":            {" \t\r\n", "empty_body", false},
		"BOM only":               {"\uFEFF", "empty_body", false},
		"null":                   {"null", "not_an_object", false},
		"number":                 {"12", "not_an_object", false},
		"array":                  {"[]", "not_an_object", false},
		"text":                   {"Hello", "not_json", false},
		"truncated":              {`{"a":1`, "not_json", false},
		"truncated string":       {`{"a":"1`, "not_json", false},
		"truncated escape":       {`{"a":"\u00`, "not_json", false},
		"trailing comma":         {`{"a":1,}`, "not_json", false},
		"no comma":               {`{"a":1 "b":2}`, "not_json", false},
		"comment":                {`{/**/}`, "not_json", false},
		"NaN":                    {`{"a":NaN}`, "not_json", false},
		"leading zero":           {`{"a":01}`, "not_json", false},
		"bare minus":             {`{"a":-}`, "not_json", false},
		"bare point":             {`{"a":1.}`, "not_json", false},
		"bare exponent":          {`{"a":1e}`, "not_json", false},
		"hex":                    {`{"a":0x10}`, "not_json", false},
		"control in string":      {"{\"a\":\"\x01\"}", "not_json", false},
		"odd escape":             {`{"a":"\x41"}`, "not_json", false},
		"control as hex digit":   {"{\"a\":\"\\u00\x10\x10\"}", "not_json", false},
		"single quotes":          {`{'a':1}`, "not_json", false},
		"UTF-16":                 {"\xff\xfe{\x00}\x00", "not_json", false},
		"text behind":            {`{} x`, "trailing_data", false},
		"second document":        {`{}{}`, "trailing_data", false},
		"NUL byte behind":        {"{}\x00", "trailing_data", false},
		"BOM":                    {"\uFEFF{}", "byte_order_mark", true},
		"raw byte":               {"{\"a\":\"\xff\"}", "invalid_utf8", true},
		"overlong":               {"{\"a\":\"\xc0\x80\"}", "invalid_utf8", true},
		"escaped NUL":            {`{"a":[{"b":"x\u0000"}]}`, "nul_character", true},
		"escaped NUL in a key":   {`{"a":{"\u0000":1}}`, "nul_character", true},
		"escaped backslash, u":   {`{"a":"\\u0000"}`, "", true},
		"high surrogate alone":   {`{"a":"\ud800"}`, "invalid_unicode", true},
		"high surrogate, letter": {`{"a":"\ud800x\udc00"}`, "invalid_unicode", true},
		"low surrogate first":    {`{"a":"\udc00\ud800"}`, "invalid_unicode", true},
		"high twice":             {`{"a":"\ud800\ud800\udc00"}`, "invalid_unicode", true},
		"key twice":              {`{"a":1,"a":1}`, "duplicate_key", true},
		"key twice, escaped":     {`{"a":1,"\u0061":1}`, "duplicate_key", true},
		"key twice, not ours":    {`{"a":{"b":1,"b":2}}`, "", true},
		"many keys":              {"{" + keys(webhook.MaxKeys-1) + `"id":1}`, "", true},
		"too many keys":          {"{" + keys(webhook.MaxKeys) + `"id":1}`, "too_many_keys", true},
		"deep enough":            {nested(webhook.MaxDepth), "", true},
		"too deep":               {nested(webhook.MaxDepth + 2), "too_deep", true},
		"much too deep":          {nested(100_000), "too_deep", true},
		"much too deep, open":    {strings.Repeat(`[`, 100_000), "not_json", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := webhook.ReadEnvelope([]byte(c.body))
			if e.Problem() != c.problem || e.Readable() != c.readable {
				t.Errorf("got problem %q readable %t, want %q %t", e.Problem(), e.Readable(), c.problem, c.readable)
			}
		})
	}
}

func TestEnvelope_Lookups(t *testing.T) {
	t.Parallel()
	e := webhook.ReadEnvelope([]byte(`{
		"s":"text","esc":"a\u00e9\"","n":12345678901234567890,"big":1e400,"t":true,"nil":null,"deep":{"er":{"id":"x","n":7}},
		"list":[1],"at":1700000000,"when":"2026-03-01T12:00:00.5+01:00","a.b":"dotted","expanded":{"id":"in_1","object":"invoice"}}`))
	for name, c := range map[string]struct{ got, want string }{
		"string":              {e.String("s"), "text"},
		"escaped string":      {e.String("esc"), `aé"`},
		"string of a number":  {e.String("n"), ""},
		"string of an object": {e.String("deep"), ""},
		"number as text":      {e.Text("n"), "12345678901234567890"},
		"huge number":         {e.Number("big").String(), "1e400"},
		"number of a string":  {e.Number("s").String(), ""},
		"path":                {e.String("deep.er.id"), "x"},
		"path into a string":  {e.String("s.x"), ""},
		"path into a list":    {e.String("list.0"), ""},
		"other case":          {e.String("S"), ""},
		"missing":             {e.String("deep.no.id"), ""},
		"null":                {e.String("nil"), ""},
		"reference":           {e.Tag("s"), "text"},
		"expanded reference":  {e.Tag("expanded"), "in_1"},
		"null reference":      {e.Tag("nil"), ""},
		"unix time":           {e.UnixTime("at").Format(time.RFC3339), "2023-11-14T22:13:20Z"},
		"RFC 3339":            {e.RFC3339("when").Format(time.RFC3339Nano), "2026-03-01T11:00:00.5Z"},
		"mode":                {string(e.Mode("t")), "live"},
		"no mode":             {string(e.Mode("s")), ""},
		"problem":             {e.Problem(), ""},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %q, want %q", name, c.got, c.want)
		}
	}
}

func TestEnvelope_Ambiguity(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ body, id, problem string }{
		"twice in the path":        {`{"d":{"id":"a","id":"b"}}`, "", "duplicate_key: in d"},
		"parent twice":             {`{"d":{"id":"a"},"d":{"id":"b"}}`, "", "duplicate_key"},
		"beside it twice":          {`{"d":{"id":"a","x":1,"x":2}}`, "a", "duplicate_key: in d"},
		"two cases":                {`{"d":{"id":"a","Id":"b"}}`, "a", `ambiguous_key: "id"`},
		"Kelvin sign is a k to Go": {"{\"d\":{\"id\":\"a\",\"\u212a\":1,\"k\":2}}", "a", ""},
		"look-alikes":              {`{"d":{"ıd":"a","ⅰd":"b","id":"c"}}`, "c", ""},
	} {
		e := webhook.ReadEnvelope([]byte(c.body))
		if got := e.String("d.id"); got != c.id || e.Problem() != c.problem {
			t.Errorf("%s: got %q, problem %q, want %q, %q", name, got, e.Problem(), c.id, c.problem)
		}
	}
}

func TestEnvelope_EventID(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 201)
	for name, c := range map[string]struct{ body, id, problem string }{
		"fine":             {`{"id":"evt_1"}`, "evt_1", ""},
		"200 bytes":        {`{"id":"` + long[1:] + `"}`, long[1:], ""},
		"201 bytes":        {`{"id":"` + long + `"}`, webhook.HashID([]byte(long)), "invalid_event_id: longer than 200 bytes"},
		"kept as it is":    {`{"id":" ../e\u0301\u202e "}`, " ../e\u0301\u202e ", ""},
		"line break":       {`{"id":"a\nb"}`, webhook.HashID([]byte("a\nb")), "invalid_event_id: control characters"},
		"NUL":              {`{"id":"a\u0000"}`, webhook.HashID([]byte("a\x00")), "nul_character"},
		"lone surrogate":   {`{"id":"\ud800"}`, webhook.HashID([]byte("\uFFFD")), "invalid_unicode"},
		"number":           {`{"id":5}`, webhook.HashID([]byte(`{"id":5}`)), "invalid_event_id: not a string"},
		"empty":            {`{"id":""}`, webhook.HashID([]byte(`{"id":""}`)), "missing_event_id: id"},
		"null":             {`{"id":null}`, webhook.HashID([]byte(`{"id":null}`)), "missing_event_id: id"},
		"not there":        {`{"ID":"a"}`, webhook.HashID([]byte(`{"ID":"a"}`)), "missing_event_id: id"},
		"unreadable":       {`{"id":"a"`, webhook.HashID([]byte(`{"id":"a"`)), "not_json"},
		"oddity elsewhere": {"{\"id\":\"a\",\"x\":\"\xff\"}", "a", "invalid_utf8"},
	} {
		e := webhook.ReadEnvelope([]byte(c.body))
		id, origin := e.EventID("id")
		wantOrigin := webhook.FromBody
		if strings.HasPrefix(c.id, "sha256:") {
			wantOrigin = webhook.FromHash
		}
		if id != c.id || origin != wantOrigin || e.Problem() != c.problem {
			t.Errorf("%s: got %q %s %q, want %q %s %q", name, id, origin, e.Problem(), c.id, wantOrigin, c.problem)
		}
	}
}

func TestEnvelope_Times_Invalid(t *testing.T) {
	t.Parallel()
	for _, value := range []string{`1700000000000`, `-1`, `1.5`, `1e9`, `"1700000000"`, `{}`, `99999999999999999999`} {
		e := webhook.ReadEnvelope([]byte(`{"at":` + value + `}`))
		if got := e.UnixTime("at"); !got.IsZero() || e.Problem() != "invalid_occurred_at: at" {
			t.Errorf("UnixTime of %s: got %s, problem %q", value, got, e.Problem())
		}
	}
	for _, value := range []string{`1700000000`, `"soon"`, `"2026-03-01"`, `"2026-13-01T00:00:00Z"`} {
		e := webhook.ReadEnvelope([]byte(`{"at":` + value + `}`))
		if got := e.RFC3339("at"); !got.IsZero() || e.Problem() != "invalid_occurred_at: at" {
			t.Errorf("RFC3339 of %s: got %s, problem %q", value, got, e.Problem())
		}
	}
	e := webhook.ReadEnvelope([]byte(`{"at":null}`))
	if !e.UnixTime("at").IsZero() || !e.UnixTime("no").IsZero() || e.Problem() != "" {
		t.Errorf("a time that is not given is a problem: %q", e.Problem())
	}
}

func TestElements(t *testing.T) {
	t.Parallel()
	got, problem := webhook.Elements([]byte(` [ 1 , {"a":[2]},"x" ]` + "\r\n"))
	want := []string{"1", `{"a":[2]}`, `"x"`}
	if problem != "" || len(got) != len(want) {
		t.Fatalf("got %q, problem %q", got, problem)
	}
	for i := range want {
		if string(got[i]) != want[i] {
			t.Errorf("element %d: got %s, want %s", i, got[i], want[i])
		}
	}
	if got, problem := webhook.Elements([]byte("{}")); got != nil || problem != webhook.NotAnArray {
		t.Errorf("an object: got %q %q", got, problem)
	}
}

// FuzzReadEnvelope compares the readable documents with encoding/json.
func FuzzReadEnvelope(f *testing.F) {
	for _, seed := range []string{`{"id":"a","d":{"id":1}}`, `[{}]`, `{"a":"\u0000\ud800"}`, "\uFEFF{}", `{"a":1,"a":2}`, `{} {}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		e := webhook.ReadEnvelope(body)
		id, _ := e.EventID("id")
		e.Tag("d")
		if id == "" {
			t.Error("no event ID")
		}
		if strings.HasPrefix(e.Problem(), string(webhook.TooDeep)) || strings.HasPrefix(e.Problem(), string(webhook.InvalidUTF8)) {
			return // deeper than the limit
		}
		trimmed := bytes.TrimPrefix(body, []byte("\uFEFF"))
		isObject := json.Valid(trimmed) && bytes.HasPrefix(bytes.TrimLeft(trimmed, " \t\r\n"), []byte("{"))
		if e.Readable() != isObject {
			t.Errorf("Readable: got %t, encoding/json returns %t", e.Readable(), isObject)
		}
		if !isObject {
			return
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(trimmed, &fields); err != nil {
			t.Fatal(err)
		}
		for key, want := range fields {
			if strings.Contains(key, ".") {
				continue
			}
			if got, ok := e.Raw(key); ok && !bytes.Equal(got, want) {
				t.Errorf("Raw(%q): got %s, want %s", key, got, want)
			}
		}
	})
}

// The value of a member is skipped by its quotes and brackets, so they must be parsed correctly.
func TestEnvelope_QuotesAndBracketsInStrings_NotMistaken(t *testing.T) {
	t.Parallel()
	body := `{"a":"x\\\"}]{,","b":[{"c":"]}\\"},"\\\\\""] ,"d":-1.5e3,"e":{"f":"}","g":{"h":"\\"}}	,"i":null,"":"","id":"last"}`
	e := webhook.ReadEnvelope([]byte(body))
	for path, want := range map[string]string{
		"a": `"x\\\"}]{,"`, "b": `[{"c":"]}\\"},"\\\\\""]`, "d": `-1.5e3`, "e": `{"f":"}","g":{"h":"\\"}}`,
		"e.f": `"}"`, "e.g.h": `"\\"`, "i": "null", "": `""`, "id": `"last"`,
	} {
		if got, ok := e.Raw(path); !ok || string(got) != want {
			t.Errorf("%q is %s, %v; want %s", path, got, ok, want)
		}
	}
	if p := e.Problem(); p != "" {
		t.Errorf("problem %q, want none", p)
	}
}

func TestReadSharedEnvelope_OnlyLookedUpKeys(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	for i := range webhook.MaxKeys {
		fmt.Fprintf(&many, `"k%d":1,`, i)
	}
	for name, c := range map[string]struct{ body, id, problem string }{
		"other key twice":         {`{"id":"a","x":1,"x":2}`, "a", ""},
		"other case":              {`{"ID":"b","id":"a","Id":"c"}`, "a", ""},
		"key twice":               {`{"id":"a","id":"a"}`, "", `duplicate_key: "id"`},
		"too many, and one twice": {"{" + many.String() + `"id":1,"k1":1}`, "", "too_many_keys"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := webhook.ReadSharedEnvelope([]byte(c.body))
			if id := e.String("id"); id != c.id || e.Problem() != c.problem {
				t.Errorf("got ID %q, problem %q; want %q, %q", id, e.Problem(), c.id, c.problem)
			}
		})
	}
}
