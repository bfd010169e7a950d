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
)

// signedFields are the fields of an item that its signature covers, in order.
var signedFields = []string{
	"pspReference", "originalReference", "merchantAccountCode", "merchantReference",
	"amount.value", "amount.currency", "eventCode", "success",
}

// verifyItems checks the signature of each item. A body without items has no signature at all.
func (v *verifier) verifyItems(r *webhook.Request) (webhook.Match, error) {
	items, err := readItems(r.Body)
	if err != nil {
		return webhook.Match{}, err
	}
	var first webhook.Match
	for i, raw := range items {
		item := webhook.ReadEnvelope(raw)
		signed, err := signedText(item)
		if err != nil {
			return webhook.Match{}, err
		}
		signature := item.String(signatureField)
		if signature == "" {
			return webhook.Refuse(webhook.MissingSignature, "item %d holds no %s", i, signatureField)
		}
		match, err := webhook.MatchHMAC(v.keys, r.ReceivedAt, sha256.New, [][]byte{webhook.DecodeBase64(signature)},
			[]byte(signed))
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
		return nil, webhook.Errorf(webhook.MalformedBody, "the body holds no readable %s", itemsField)
	}
	if len(elements) == 0 {
		return nil, webhook.Errorf(webhook.MissingSignature, "%s is empty", itemsField)
	}
	items := make([]json.RawMessage, 0, len(elements))
	for i, element := range elements {
		item, ok := webhook.ReadEnvelope(element).Raw(itemField)
		if !ok || item[0] != '{' {
			return nil, webhook.Errorf(webhook.MalformedBody, "element %d of %s holds no %s", i, itemsField, itemField)
		}
		items = append(items, item)
	}
	return items, nil
}

// signedText joins the signed fields with ":"; a missing one is empty and nothing is escaped.
//
// It refuses items that could share their signature with another reading: those with a repeated field, or with a
// colon anywhere but in merchantReference, the one field that merchants write. A quote in that field shows a body
// that is signed as a whole and was cut at its colons.
func signedText(item *webhook.Envelope) (string, error) {
	values := make([]string, 0, len(signedFields))
	for _, path := range signedFields {
		value, ok := scalar(item, path)
		if !ok {
			return "", webhook.Errorf(webhook.MalformedBody, "%s of an item is no text, number or boolean", path)
		}
		if path != "merchantReference" && strings.ContainsAny(value, `:"`) {
			return "", webhook.Errorf(webhook.MalformedBody, "%s of an item holds a colon or a quote", path)
		}
		values = append(values, value)
	}
	for _, p := range []webhook.Problem{webhook.DuplicateKey, webhook.AmbiguousKey} {
		if strings.HasPrefix(item.Problem(), string(p)) {
			return "", webhook.Errorf(webhook.MalformedBody, "an item names a field twice")
		}
	}
	return strings.Join(values, ":"), nil
}

// scalar returns the text of the value at path: some of Adyen's producers write amount.value and
// success as text, others as a number and a boolean, and sign the same characters.
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

// itemEvents reads an event from each item. One that cannot be read does not keep the others back.
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

func itemEvent(raw json.RawMessage) webhook.Event {
	item := webhook.ReadEnvelope(raw)
	success, _ := scalar(item, "success")
	e := webhook.Event{
		Type:       item.EventType("eventCode"),
		Account:    item.Tag("merchantAccountCode"),
		Object:     item.Tag("pspReference"),
		OccurredAt: item.Moment("eventDate"),
		Body:       raw,
	}
	if signed, err := signedText(item); err == nil {
		e.Signed = []byte(signed)
	}
	if e.Object == "" || e.Type == "" {
		item.Note(webhook.MissingEventID, "pspReference and eventCode")
		e.ID, e.IDOrigin = webhook.HashID(raw), webhook.FromHash
	} else {
		e.ID, e.IDOrigin = item.UsableID(e.Object+":"+e.Type+":"+success, webhook.FromBody)
		if e.IDOrigin == webhook.FromBody {
			e.Identity = webhook.ByIDOrBytes // live or test stands outside of the items, where nothing signs it
		}
	}
	e.Problem = item.Problem()
	return e
}

// modeAt returns the mode that the body tells at path, where live and test are its words for it; it is empty where
// the body does not say.
func modeAt(body *webhook.Envelope, path, live, test string) webhook.Mode {
	switch value, _ := scalar(body, path); value {
	case live:
		return webhook.Live
	case test:
		return webhook.Test
	}
	return ""
}

// signItems writes its signature into each item of body.
func signItems(body, key []byte) ([]byte, error) {
	items, err := readItems(body)
	if err != nil {
		return nil, fmt.Errorf("sign for adyen: %w", err)
	}
	for i, raw := range items {
		text, err := signedText(webhook.ReadEnvelope(raw))
		if err != nil {
			return nil, fmt.Errorf("sign for adyen: %w", err)
		}
		path := fmt.Sprintf("%s.%d.%s.%s", itemsField, i, itemField, signatureField)
		mac := webhook.MAC(sha256.New, key, []byte(text))
		if body, err = sjson.SetBytes(body, path, base64.StdEncoding.EncodeToString(mac)); err != nil {
			return nil, fmt.Errorf("sign for adyen: write %s: %w", path, err)
		}
	}
	return body, nil
}
