package forge

// update emits the present subscription.
func (c *Customer) update() {
	c.show()
	c.emit("customer.subscription.updated", c.subscription.object)
}

// show writes plan, seats and period into the subscription, in the fields of the API version.
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

// unmark removes the plan and account from the metadata: the prices determine the plan, and the checkout session names
// the account, if there is one.
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
