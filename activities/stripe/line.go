package stripe

import (
	"errors"
	"slices"
	"time"
)

// Line is one line of an invoice.
type Line struct {
	Price     string
	LookupKey string
	Product   string
	Amount    int64
	Start     time.Time
	End       time.Time

	rank int
	// credited is set where the line names what it takes back: its amount can be 0.
	credited bool
}

// credit reports whether the line takes money back. What was free is taken back for nothing, so that the
// amount alone does not tell.
func (l Line) credit() bool { return l.Amount < 0 || l.credited }

// over reports whether the line's period had ended when that of another line began.
func (l Line) over(before Line) bool { return !l.End.After(before.Start) }

// placesOf are where a line tells what it belongs to: on the line up to 2025-02, since then under its parent,
// which is a subscription item or an invoice item.
func placesOf(l object) []object {
	parent := l.object("parent")
	return []object{l, parent.object("subscription_item_details"), parent.object("invoice_item_details")}
}

// lineSubscription finds a line's subscription. "" is an item of no subscription.
func lineSubscription(l object) string {
	for _, place := range placesOf(l) {
		if id := place.ref("subscription"); id != "" {
			return id
		}
	}
	return ""
}

// lines returns the lines that tell what was bought:
//
//   - Of the lines that charge, those of the lowest rank. Lines that the same invoice takes back again do not count.
//   - Beside the subscription's own lines, prorations too, of a period that had not ended when the own lines' began.
//   - The lines that take money back, and no others, where nothing charges for what comes after them: no line charges
//     at all, or the subscription was canceled and only its use until then is billed. They name what was left.
//
// Its error is a [FieldError].
func lines(in object) ([]Line, error) {
	var charges, credits []Line
	for _, l := range in.list("lines") {
		line, err := readLine(l)
		if err != nil {
			return nil, err
		}
		if line.credit() {
			credits = append(credits, line)
		} else {
			charges = append(charges, line)
		}
	}
	charges = slices.DeleteFunc(charges, func(l Line) bool { return leftAgain(l, credits) })
	if len(charges) == 0 {
		return credits, nil
	}
	first := lowest(charges)
	var found []Line
	for _, l := range charges {
		besideOwn := first == rankSubscription && l.rank == rankProration &&
			!slices.ContainsFunc(charges, func(own Line) bool { return own.rank == first && l.over(own) })
		if l.rank == first || besideOwn {
			found = append(found, l)
		}
	}
	if slices.ContainsFunc(credits, func(c Line) bool { return c.rank == rankProration && allOver(found, c) }) {
		return credits, nil
	}
	return found, nil
}

// allOver reports whether the lines are the subscription's own and had ended when the rest of its period was
// taken back: the final invoice of a subscription that is canceled bills the usage until then.
func allOver(own []Line, credit Line) bool {
	return !slices.ContainsFunc(own, func(l Line) bool { return l.rank != rankSubscription || l.End.IsZero() || !l.over(credit) })
}

func lowest(lines []Line) int {
	rank := ranks
	for _, l := range lines {
		rank = min(rank, l.rank)
	}
	return rank
}

// leftAgain reports whether the same invoice takes back what l charges for: of several changes of plan in
// one period, each charges for its plan and the next one takes that back from its own time on.
func leftAgain(l Line, credits []Line) bool {
	return l.Price != "" && slices.ContainsFunc(credits, func(c Line) bool { return c.Price == l.Price && c.End.Equal(l.End) && c.Start.After(l.Start) })
}

// The ranks of lines. Prorations charge for the rest of a period that is paid for, and count where
// the invoice has nothing of the next one. Invoice items that a person added come last: their period
// is often a single instant, and their price no plan's.
const (
	rankSubscription = iota
	rankProration
	rankItemOfSubscription
	rankItem
	ranks
)

// rankOf reads a line's kind: type and proration up to 2025-02, parent since. Either kind of parent
// can say that the line is a proration.
func rankOf(l object) int {
	for _, place := range placesOf(l) {
		if string(place["proration"]) == "true" {
			return rankProration
		}
	}
	parent := l.object("parent")
	switch {
	case l.text("type") == "subscription", len(parent.object("subscription_item_details")) > 0 && parent.text("type") != "invoice_item_details":
		return rankSubscription
	case lineSubscription(l) != "":
		return rankItemOfSubscription
	}
	return rankItem
}

// readLine reads a line: price up to 2025-02, pricing.price_details since.
func readLine(l object) (line Line, err error) {
	line.rank, line.credited = rankOf(l), credited(l)
	if line.Amount, err = l.integer("amount"); err != nil && !errors.Is(err, errAbsent) {
		return Line{}, &FieldError{"invoice.lines.data[].amount", err.Error()}
	}
	if line.Start, line.End, err = l.object("period").span("invoice.lines.data[].period.", "start", "end"); err != nil {
		return Line{}, err
	}
	details := l.object("pricing", "price_details")
	switch {
	case !l.null("price"):
		line.Price, line.Product = l.ref("price"), l.object("price").ref("product")
		line.LookupKey = l.object("price").text("lookup_key")
	case len(details) > 0:
		line.Price, line.Product = details.ref("price"), details.ref("product")
		line.LookupKey = details.object("price").text("lookup_key")
	case !l.null("plan"):
		line.Price, line.Product = l.ref("plan"), l.object("plan").ref("product")
	}
	return line, nil
}

// credited reports whether the line is a credit that names the lines it takes back ("for a credit proration,
// the original debit line items"), in proration_details.
func credited(l object) bool {
	for _, place := range placesOf(l) {
		if len(place.object("proration_details", "credited_items")) > 0 {
			return true
		}
	}
	return false
}
