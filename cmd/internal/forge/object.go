package forge

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
)

// stripeID finds the IDs of objects and events. Prices and products are the shop's, not the customer's.
var stripeID = regexp.MustCompile(`\b(?:evt|cus|sub|si|in|il|inpay|ch|pi|re|dp|txn|cs|issfr|cn|req)_[0-9A-Za-z]+`)

// object is a JSON object of Stripe's.
type object = map[string]any

// update tells of the subscription as it is now.
func (c *Customer) update() {
	c.show()
	c.emit("customer.subscription.updated", c.subscription.object)
}

// show writes plan, seats and period into the subscription, where the API's version has them.
func (c *Customer) show() {
	item := c.subscription.object["items"].(object)["data"].([]any)[0].(object)
	setPrice(item["price"].(object), c.plan)
	item["quantity"] = c.seats
	period := item
	if !c.basil() {
		period = c.subscription.object
	}
	period["current_period_start"], period["current_period_end"] = c.start.Unix(), c.end.Unix()
	c.unmark(c.subscription.object)
}

// unmark leaves it to the prices which plan it is; and to the checkout session whose account, where one names it.
func (c *Customer) unmark(o object) {
	for _, path := range [][]string{{"metadata"}, {"subscription_details", "metadata"},
		{"parent", "subscription_details", "metadata"}} {
		inner := o
		for _, name := range path {
			inner, _ = inner[name].(object)
		}
		delete(inner, "plan")
		if c.atCheckout {
			delete(inner, "account")
		}
	}
}

func (c *Customer) basil() bool { return data{Params: c.params.WithDefaults()}.Basil() }

// make returns the object of an event of this type, as it is by default.
func (c *Customer) make(eventType, seed string) object { return c.makeOf(c.params, eventType, seed) }

func (c *Customer) makeOf(p Params, eventType, seed string) object {
	e := c.event(p, eventType, seed)
	made, _ := e["data"].(object)["object"].(object)
	return made
}

// id returns the ID of the object of an event of this type.
func (c *Customer) id(eventType, seed string) string {
	id, _ := c.make(eventType, seed)["id"].(string)
	return id
}

func (c *Customer) event(p Params, eventType, seed string) object {
	p.Type, p.Seed, p.At, p.EventID = eventType, seed, c.now, ""
	made, err := New(p, "")
	var body object
	if err == nil {
		err = json.Unmarshal(made.Body, &body)
	}
	if err != nil {
		c.err = errors.Join(c.err, err)
		return object{"data": object{"object": object{}}}
	}
	return body
}

// emit makes an event that shows an object as it is now.
func (c *Customer) emit(eventType string, o object) {
	body := c.event(c.params, eventType, "emit")
	shown := clone(o)
	id, _ := shown["id"].(string)
	about := object{"object": shown}
	if before := c.told[id]; eventType == "customer.subscription.updated" || eventType == "charge.dispute.updated" ||
		eventType == "refund.updated" {
		about["previous_attributes"] = differing(before, shown)
	}
	c.told[id] = shown
	body["data"] = about
	text, err := json.Marshal(body)
	if err != nil {
		c.err = errors.Join(c.err, err)
		return
	}
	text = stripeID.ReplaceAllFunc(text, func(id []byte) []byte { return []byte(c.name(string(id))) })
	eventID, _ := body["id"].(string)
	c.events = append(c.events,
		Event{ID: c.name(eventID), Type: eventType, Account: c.params.ConnectedAccount,
			ContentType: "application/json", Body: text})
}

// emitWith makes an event about an object that the provider keeps one field more of than it sends.
func (c *Customer) emitWith(eventType string, o object, field string, part any) {
	c.emit(eventType, o)
	sent := len(c.events) - 1
	var whole object
	if sent < 0 || json.Unmarshal(c.events[sent].Body, &whole) != nil {
		return // emit has said why
	}
	whole["data"].(object)["object"].(object)[field] = part
	text, err := json.Marshal(whole)
	c.err = errors.Join(c.err, err)
	c.events[sent].Whole = stripeID.ReplaceAllFunc(text, func(id []byte) []byte { return []byte(c.name(string(id))) })
}

// differing returns what of before is not so any more: of nested objects only what differs, arrays whole.
func differing(before, now object) object {
	out := object{}
	for name := range now {
		if _, was := before[name]; !was {
			out[name] = nil
		}
	}
	for name, was := range before {
		is := now[name]
		if reflect.DeepEqual(was, is) {
			continue
		}
		inner, nested := was.(object)
		after, still := is.(object)
		if out[name] = was; nested && still {
			out[name] = differing(inner, after)
		}
	}
	return out
}

// clone copies an object with all that is in it, as JSON has it.
func clone(o object) object {
	text, err := json.Marshal(o)
	var copied object
	if err == nil {
		err = json.Unmarshal(text, &copied)
	}
	if err != nil {
		panic("forge: " + err.Error()) // it was made of JSON
	}
	return copied
}

// whole reads a number, which JSON has made a float.
func whole(v any) int64 {
	switch n := v.(type) {
	case float64:
		return int64(n)
	case int64:
		return n
	case int:
		return int64(n)
	}
	return 0
}

// name returns the ID that is told for the one that an object was made with.
func (c *Customer) name(id string) string {
	if c.named[id] == "" {
		kind, _, _ := strings.Cut(id, "_")
		c.named[id] = fmt.Sprintf("%s_%s%04d", kind, c.token, len(c.named)+1)
	}
	return c.named[id]
}
