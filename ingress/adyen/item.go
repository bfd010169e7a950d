package adyen

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidwall/sjson"

	"github.com/pawlhq/pawl/ingress/webhook"
)

const (
	itemsField     = "notificationItems"
	itemField      = "NotificationRequestItem"
	signatureField = "additionalData.hmacSignature"

	// reportAvailable is the eventCode of a report that can be downloaded.
	reportAvailable = "REPORT_AVAILABLE"
)

// signedFields are the paths of the signed fields of an item, in the order in which Adyen signs them.
var signedFields = []string{
	"pspReference", "originalReference", "merchantAccountCode", "merchantReference",
	"amount.value", "amount.currency", "eventCode", "success",
}

// verifyItems checks only the signature of each item. It never rejects an item because of its content: Adyen sends no
// other delivery until the endpoint has accepted this one. verifyItems rejects a body without items, because nothing in
// it is signed.
func (v *verifier) verifyItems(r *webhook.Request) (webhook.Match, error) {
	items, err := readItems(r.Body)
	if err != nil {
		return webhook.Match{}, err
	}
	var first webhook.Match
	for i, raw := range items {
		item := webhook.ReadEnvelope(raw)
		signature := item.String(signatureField)
		if signature == "" {
			return webhook.Refuse(webhook.MissingSignature, "item %d contains no %s", i, signatureField)
		}
		match, err := webhook.MatchHMAC(v.keys, r.ReceivedAt, sha256.New, [][]byte{webhook.DecodeBase64(signature)},
			[]byte(signedText(item)))
		if err != nil {
			return webhook.Match{}, err
		}
		if i == 0 {
			first = match
		}
	}
	first.Covers = webhook.SignedFields
	return first, nil
}

// readItems returns the items of a payments body.
func readItems(body []byte) ([]json.RawMessage, error) {
	outer := webhook.ReadEnvelope(body)
	raw, _ := outer.Raw(itemsField)
	elements, problem := webhook.Elements(raw)
	if problem != "" {
		return nil, webhook.Errorf(webhook.MalformedBody, "the body contains no readable %s", itemsField)
	}
	if len(elements) == 0 {
		return nil, webhook.Errorf(webhook.MissingSignature, "%s is empty", itemsField)
	}
	items := make([]json.RawMessage, 0, len(elements))
	for i, element := range elements {
		item, ok := webhook.ReadEnvelope(element).Raw(itemField)
		if !ok || item[0] != '{' {
			return nil, webhook.Errorf(webhook.MalformedBody, "element %d of %s has no %s", i, itemsField, itemField)
		}
		items = append(items, item)
	}
	return items, nil
}

// signedText joins the signed fields with ":". A missing field is empty, and nothing is escaped. It treats a field as
// empty, and notes a problem, if the field occurs twice or is not text, a number or a boolean.
func signedText(item *webhook.Envelope) string {
	values := make([]string, len(signedFields))
	for i, path := range signedFields {
		var isScalar bool
		if values[i], isScalar = scalar(item, path); !isScalar {
			item.Note(webhook.UnknownEnvelope, path+" is not text, a number or a boolean")
		}
	}
	return strings.Join(values, ":")
}

// noteAmbiguity notes a problem if the signature of the item also fits other field values. Merchants write only
// merchantReference: its colons are unambiguous if no other field contains a colon. A quote indicates an attack: a JSON
// body with a signature of its own, which the attacker split at its colons.
//
// In an item about a report, pspReference contains a file name, which may contain a time with colons. The last four
// fields of such an item are unambiguous and identify it as a report.
func noteAmbiguity(item *webhook.Envelope) {
	merchantReference, _ := scalar(item, "merchantReference")
	eventCode, _ := scalar(item, "eventCode")
	isReport := eventCode == reportAvailable && !strings.ContainsAny(merchantReference, `:"`)
	for _, path := range signedFields {
		forbidden := `:"`
		switch {
		case path == "merchantReference":
			continue
		case path == "pspReference" && isReport:
			forbidden = `"`
		}
		if value, _ := scalar(item, path); strings.ContainsAny(value, forbidden) {
			item.Note(webhook.AmbiguousFields, path+" contains a colon or a quote")
		}
	}
}

// scalar returns the text of the value at path. Adyen sends amount.value and success as text, or as a number and a
// boolean; the signed characters are the same. scalar returns false for an object or a list.
func scalar(item *webhook.Envelope, path string) (string, bool) {
	raw, there := item.Raw(path)
	switch {
	case !there, string(raw) == "null":
		return "", true
	case raw[0] == '"':
		return item.String(path), true
	case raw[0] == '{', raw[0] == '[':
		return "", false
	}
	return string(raw), true
}

// itemEvents returns one event for each item. An unreadable item is an event with a problem.
func itemEvents(body []byte) []webhook.Event {
	items, err := readItems(body)
	if err != nil {
		problem := webhook.ReadEnvelope(body).Problem()
		if problem == "" {
			problem = string(webhook.UnknownEnvelope)
		}
		return []webhook.Event{{ID: webhook.HashID(body), IDOrigin: webhook.FromHash, Problem: problem}}
	}
	mode := modeAt(webhook.ReadEnvelope(body), "live", "true", "false")
	events := make([]webhook.Event, 0, len(items))
	for _, raw := range items {
		e := itemEvent(raw)
		e.Mode = mode
		events = append(events, e)
	}
	return events
}

// itemEvent returns the event of one item. If the item has a problem, the event's ID is the hash of its signed text. An
// attacker who has one item can write many variants with the same signed text, and all of them become one event.
func itemEvent(raw json.RawMessage) webhook.Event {
	item := webhook.ReadEnvelope(raw)
	signed := signedText(item)
	noteAmbiguity(item)
	success, _ := scalar(item, "success")
	e := webhook.Event{
		Type:       item.EventType("eventCode"),
		Account:    item.Tag("merchantAccountCode"),
		Object:     item.Tag("pspReference"),
		OccurredAt: item.Moment("eventDate"),
		Body:       raw,
		Signed:     []byte(signed),
	}
	if e.Object == "" || e.Type == "" {
		item.Note(webhook.MissingEventID, "pspReference and eventCode")
	}
	e.ID, e.IDOrigin = item.UsableID(e.Object+":"+e.Type+":"+success, webhook.FromBody)
	if e.Problem = item.Problem(); e.Problem != "" {
		return webhook.Event{ID: webhook.HashID(e.Signed), IDOrigin: webhook.FromHash, Type: e.Type, Body: raw,
			Problem: e.Problem}
	}
	e.Identity = webhook.ByIDOrBytes // the mode is outside of the items and unsigned
	return e
}

// modeAt returns the mode at path in body. live and test are the values that Adyen sends there. It returns "" for any
// other value.
func modeAt(body *webhook.Envelope, path, live, test string) webhook.Mode {
	switch value, _ := scalar(body, path); value {
	case live:
		return webhook.Live
	case test:
		return webhook.Test
	}
	return ""
}

// signItems writes the signature of each item into the item.
func signItems(body, key []byte) ([]byte, error) {
	items, err := readItems(body)
	if err != nil {
		return nil, fmt.Errorf("sign for adyen: %w", err)
	}
	for i, raw := range items {
		text := signedText(webhook.ReadEnvelope(raw))
		path := fmt.Sprintf("%s.%d.%s.%s", itemsField, i, itemField, signatureField)
		mac := webhook.MAC(sha256.New, key, []byte(text))
		if body, err = sjson.SetBytes(body, path, base64.StdEncoding.EncodeToString(mac)); err != nil {
			return nil, fmt.Errorf("sign for adyen: write %s: %w", path, err)
		}
	}
	return body, nil
}
