package forge

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// data is the data of a template: the parameters, and values derived from them.
type data struct {
	Params
	// Cut is set for the invoice of an event that contains only its first lines.
	Cut bool
}

func (d data) Unix() int64      { return d.At.Unix() }
func (d data) UnixMilli() int64 { return d.At.UnixMilli() }
func (d data) Time() string     { return d.At.UTC().Format(time.RFC3339) }
func (d data) Hash() string     { return hash(d.EventID, "hash", 16) }
func (d data) Number() int64    { return number(d.Seed) }
func (d data) Major() string    { return fmt.Sprintf("%d.%02d", d.Amount/100, d.Amount%100) }

// Kind is the first part of a type such as issues.opened or orders/paid, and Action is the rest.
func (d data) Kind() string { return d.Type[:d.kindLength()] }

func (d data) Action() string { return strings.TrimLeft(d.Type[d.kindLength():], "./") }

func (d data) kindLength() int {
	if i := strings.IndexAny(d.Type, "./"); i >= 0 {
		return i
	}
	return len(d.Type)
}

// Subject is the type of the event's object if the event's type contains it in the middle: billing.meter in Stripe's
// v1.billing.meter.error_report_triggered, accountHolder in Adyen's balancePlatform.accountHolder.created.
func (d data) Subject() string {
	if i := strings.LastIndexByte(d.Action(), '.'); i >= 0 {
		return d.Action()[:i]
	}
	return d.Action()
}

// hash returns n hexadecimal digits derived from seed and use.
func hash(seed, use string, n int) string {
	sum := sha256.Sum256([]byte(use + "\x00" + seed))
	return fmt.Sprintf("%x", sum)[:n]
}

// number returns a positive number of up to 15 digits derived from seed.
func number(seed string) int64 {
	n, err := strconv.ParseInt(hash(seed, "number", 12), 16, 64)
	if err != nil {
		panic("forge: " + err.Error()) // twelve hexadecimal digits fit
	}
	return n
}
