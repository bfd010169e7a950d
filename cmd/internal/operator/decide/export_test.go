package decide

// CheckFor validates the decision for an operator.
func (d *Decision) CheckFor(o *Operator) error { return d.check(o, false) }
