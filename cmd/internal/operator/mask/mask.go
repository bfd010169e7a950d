// Package mask hides personal data and secrets in payloads and headers.
package mask

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A payload is masked unless a person requests all of it. A masked payload shows only these parts:
//
//   - the structure: keys, lists, null, true and false;
//   - IDs with a known format: Stripe's prefixes, and UUIDs;
//   - a word under a key such as type, status or currency; a date and time under a key such as created_at;
//   - a number under a key such as amount, quantity or created; a numeric ID under the key id.
//
// Under a key that may contain personal data, a secret or free text (name, address, card, token, metadata, ...), at
// any depth, only the structure and Stripe's IDs are visible.

// Payload returns the payload as JSON with possible personal data masked, by the rule above. It returns an error if the
// payload is neither JSON nor a form.
func Payload(body []byte) ([]byte, error) {
	if !json.Valid(body) { // not JSON, or several values, or too deeply nested
		// The content type is not reliable, so a form is recognized by its syntax.
		form, err := url.ParseQuery(string(body))
		if err != nil || len(form) == 0 || bytes.IndexByte(body, '=') <= 0 || bytes.ContainsAny(body, " \r\n<{") {
			return nil, errors.New("neither JSON nor a form")
		}
		body, _ = json.Marshal(form) // strings always encode
	}
	m := masker{in: json.NewDecoder(bytes.NewReader(body))}
	m.in.UseNumber()
	m.value("", false)
	var indented bytes.Buffer
	err := json.Indent(&indented, m.out.Bytes(), "", "  ")
	return indented.Bytes(), err
}

// masker masks valid JSON.
type masker struct {
	in  *json.Decoder
	out bytes.Buffer
}

// value masks the next value. key is the key of the value, and personal is set if an outer key may contain personal
// data.
func (m *masker) value(key string, personal bool) {
	personal = personal || slices.ContainsFunc(wordsOf(key),
		func(w string) bool { return slices.Contains(personalWords, w) })
	switch t := m.next().(type) {
	case json.Delim:
		m.nested(t, key, personal)
	case nil:
		m.out.WriteString("null")
	case bool:
		fmt.Fprintf(&m.out, "%t", t)
	case json.Number:
		if personal || !shownNumber(key) {
			m.write("(a number)")
			return
		}
		m.out.WriteString(t.String())
	case string:
		if !shownString(key, t, personal) {
			t = fmt.Sprintf("(%d characters)", utf8.RuneCountInString(t))
		}
		m.write(t)
	}
}

// nested masks an object or a list after its opening delimiter was read. The elements of a list have the list's key.
func (m *masker) nested(open json.Delim, key string, personal bool) {
	m.out.WriteByte(byte(open))
	for first := true; m.in.More(); first = false {
		if !first {
			m.out.WriteByte(',')
		}
		under := key
		if open == '{' {
			under = m.next().(string)
			shown := under
			if !keyShape.MatchString(shown) { // the key itself is data, for example an e-mail address
				shown = fmt.Sprintf("(%d characters)", utf8.RuneCountInString(shown))
			}
			m.write(shown)
			m.out.WriteByte(':')
		}
		m.value(under, personal)
	}
	m.out.WriteByte(byte(m.next().(json.Delim)))
}

func (m *masker) next() json.Token {
	token, _ := m.in.Token() // the JSON was validated
	return token
}

func (m *masker) write(s string) {
	encoded, _ := json.Marshal(s) // encoding a string cannot fail
	m.out.Write(encoded)
}

var (
	keyShape = regexp.MustCompile(`^[A-Za-z$_][A-Za-z0-9_.\-]{0,63}$`)
	// stripeID matches the prefixes of Stripe's IDs. The rest of such an ID contains a digit.
	stripeID  = regexp.MustCompile(`^(?:acct|ch|cn|cnli|cs|cus|dp|du|evt|fee|fr|ii|il|in|inpay|issfr|li|mandate|pi|plan|pm|po|price|prod|promo|py|pyr|qt|re|req|seti|si|sli|src|sub|tr|txi|txn|txr|we)_[A-Za-z0-9_\-]{0,200}[0-9][A-Za-z0-9_\-]{0,200}$`)
	uuidShape = regexp.MustCompile(`^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	word      = regexp.MustCompile(`^[a-z][a-z0-9_.:/\-]{0,63}$`)
	version   = regexp.MustCompile(`^v?[0-9][0-9.\-]{0,15}(?:\.[a-z]{1,20})?$`)
	currency  = regexp.MustCompile(`^[A-Za-z]{3}$`)
	timestamp = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.]{5,16}(?:Z|[+-][0-9:]{4,6})?$`)
)

// personalWords are parts of keys that may hold personal data, a secret or free text.
var personalWords = strings.Fields(`
	name names firstname lastname fullname username nickname login display handle person contact individual holder owner author sender recipient
	email emails mail to from cc bcc reply phone telephone tel mobile fax sms whatsapp
	address addresses street line1 line2 city town zip postal postcode state province region country shipping billing location lat lon latitude longitude geo ip
	birth birthday birthdate dob age gender sex nationality ssn passport license national tax vat
	card cards last4 exp fingerprint iban bic swift bank routing sepa cvc cvv
	password passphrase secret secrets token tokens key keys signature authorization auth session cookie credential credentials code pin otp
	description comment comments note notes message messages text body content title subject memo footer statement descriptor reason feedback answer custom
	url urls uri link links href image avatar picture photo logo agent ua device
	metadata meta properties attributes fields payload`)

// wordKeys are the last words of keys with values that are constants of the provider.
var wordKeys = strings.Fields(`type types object status currency mode event events interval topic livemode method category kind`)

// timeKeys and numberKeys are parts of keys with visible times and numbers.
var (
	timeKeys   = strings.Fields(`created updated at start end timestamp time canceled paid finalized voided`)
	numberKeys = append(strings.Fields(`amount total subtotal due paid remaining fee fees balance quantity count price created updated
		start end timestamp attempt attempts attempted days version percent rate sequence credit discount refunded captured net gross
		refund size position unit units decimal proration period interval overpaid shortfall excluding`), "at")
)

func shownNumber(key string) bool {
	return key == "id" || slices.ContainsFunc(wordsOf(key),
		func(w string) bool { return slices.Contains(numberKeys, w) })
}

func shownString(key, value string, personal bool) bool {
	words := wordsOf(key)
	switch {
	case stripeID.MatchString(value):
		return true
	case personal || len(words) == 0:
		return false
	case uuidShape.MatchString(value): // under a key for personal data, a UUID may be a token
		return true
	}
	switch last := words[len(words)-1]; {
	case last == "currency":
		return currency.MatchString(value)
	case last == "version":
		return version.MatchString(value)
	case slices.Contains(wordKeys, last):
		return word.MatchString(value)
	}
	return timestamp.MatchString(value) &&
		slices.ContainsFunc(words, func(w string) bool { return slices.Contains(timeKeys, w) })
}

// wordsOf splits a key into words: billing_reason, billingReason and Billing-Reason have the same two words.
func wordsOf(key string) []string {
	var b strings.Builder
	var before rune
	for _, r := range key {
		if unicode.IsUpper(r) && unicode.IsLower(before) {
			b.WriteByte(' ')
		}
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			r = ' '
		}
		b.WriteRune(unicode.ToLower(r))
		before = r
	}
	return strings.Fields(b.String())
}

// shownHeaders are the headers with visible values. Other headers show only the length of their values.
var shownHeaders = []string{"content-type", "content-encoding", "content-length", "date"}

// Headers returns a copy of h in which the length of the value replaces the value of every other header.
func Headers(h http.Header) http.Header {
	masked := make(http.Header, len(h))
	for name, values := range h {
		lower := strings.ToLower(name)
		shown := slices.Contains(shownHeaders, lower) || strings.HasSuffix(lower, "-event") ||
			strings.HasSuffix(lower, "-topic") || strings.HasSuffix(lower, "-timestamp")
		for _, v := range values {
			if !shown {
				v = fmt.Sprintf("(%d characters)", utf8.RuneCountInString(v))
			}
			masked[name] = append(masked[name], v)
		}
	}
	return masked
}

// secretive lists parts of header names. The values of these headers are not shown.
var secretive = []string{"signature", "hmac", "token", "authorization", "cookie", "secret", "key", "password", "auth"}

// Redacted returns a copy of the headers. The values of signature headers and of headers with secrets are replaced.
func Redacted(h http.Header, signatures []string) http.Header {
	shown := make(http.Header, len(h))
	for name, values := range h {
		lower := strings.ToLower(name)
		hide := strings.HasSuffix(lower, "-sig") ||
			slices.ContainsFunc(secretive, func(part string) bool { return strings.Contains(lower, part) }) ||
			slices.ContainsFunc(signatures, func(signature string) bool { return strings.EqualFold(name, signature) })
		for _, v := range values {
			if hide {
				v = fmt.Sprintf("(%d bytes, not shown)", len(v))
			}
			shown[name] = append(shown[name], v)
		}
	}
	return shown
}
