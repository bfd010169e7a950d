package stripe

import "time"

// Line is one line of an invoice.
type Line struct {
	Price     string
	LookupKey string
	Product   string
	Amount    int64
	Start     time.Time
	End       time.Time
	proration bool
}

// lines reads what was bought. Prorations of an upgrade name the plan that was left, too: they
// count only when there is nothing else.
func lines(in object) []Line {
	var regular, prorations []Line
	for _, l := range in.list("lines") {
		line := readLine(l)
		if line.proration {
			prorations = append(prorations, line)
		} else {
			regular = append(regular, line)
		}
	}
	if len(regular) > 0 {
		return regular
	}
	return prorations
}

// readLine reads a line: price up to 2025-02, pricing.price_details since.
func readLine(l object) Line {
	amount, _ := l.integer("amount")
	line := Line{Amount: amount, Start: l.object("period").unix("start"), End: l.object("period").unix("end")}
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
	line.proration = string(l["proration"]) == "true" ||
		string(l.object("parent", "subscription_item_details")["proration"]) == "true"
	return line
}
