package label

import (
	"strconv"
	"strings"
)

// emails maps the kinds of e-mails to their names in lists.
var emails = map[string]string{
	"receipt-email": "Receipt", "order-email": "Order confirmation", "correction-notice": "Correction",
	"action-required-notice": "Payment failed", "dunning-notice": "Payment reminder",
	"trial-ending-notice": "Trial ends soon", "subscription-changed-notice": "Plan changed",
	"subscription-ended-notice": "Subscription ended", "access-ending-notice": "Access ends soon",
	"access-ended-notice": "Access ended",
}

// Email returns the name of an e-mail, with the number of the attempt to pay or of the reminder, from its effect key.
func Email(key string) string {
	kind, _, _ := strings.Cut(key, ":")
	name, known := emails[kind]
	if !known {
		return KindOf(kind).Name
	}
	n, err := strconv.Atoi(key[strings.LastIndex(key, ":")+1:])
	switch {
	case err != nil:
	case kind == "action-required-notice" && n == 0:
		return "Payment overdue"
	case kind == "action-required-notice":
		return name + ", attempt " + strconv.Itoa(n)
	case kind == "dunning-notice" && n == 0:
		return name + " on the due date"
	case kind == "dunning-notice":
		return name + " " + strconv.Itoa(n)
	}
	return name
}
