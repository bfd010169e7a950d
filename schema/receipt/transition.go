package receipt

import (
	"context"
	"fmt"
)

const transitionSQL = `
with held as materialized (
    select id, status from receipts where id = $1 for no key update
), moved as (
    update receipts r
       set status = $2, reason = $3, last_error = $4, updated_at = now(),
           dispatch_at = case when $2 = 'received' then now() else r.dispatch_at end
      from held where r.id = held.id and held.status = any($5::text[])
    returning r.id
)
select held.status, exists (select from moved) from held`

// Transition moves a receipt to a status with the reason and the last error that go with it ("" for
// none). A receipt that becomes received is due for dispatch at once. A status that the graph does
// not allow changes nothing and returns a *[TransitionError]; a receipt that has the status
// already takes the reason and the error, so that the call may be repeated.
func (s *Store) Transition(ctx context.Context, id string, to Status, reason, lastError string) error {
	u, err := parseID(id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var from Status
	var moved bool
	err = s.pool.QueryRow(ctx, transitionSQL, [16]byte(u), string(to), reason, lastError, mayPrecede(to)).Scan(&from, &moved)
	switch {
	case notFound(err):
		err = ErrNotFound
	case err == nil && !moved:
		err = &TransitionError{From: from, To: to}
	}
	if err != nil {
		return fmt.Errorf("move receipt %s to %s: %w", id, to, err)
	}
	return nil
}
