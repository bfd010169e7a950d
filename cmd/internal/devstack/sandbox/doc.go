// Package sandbox is the outside world of `pawl dev` and of the tests: an SMTP server, a workspace
// API, a finance API, an event subscriber, a consumer of relayed events, and a stand-in for Stripe's API, over real
// sockets. They remember what they did, also across a restart, so that "exactly once" is counted and not assumed.
//
// # Services
//
//	SMTP                       email       any message; no TLS, no authentication
//	PUT    /workspaces/{account}  workspaces  a JSON object: the target state, for each "mode" of it
//	POST   /entries            finance     a JSON object; its "account" is the account
//	POST   /events             events      a CloudEvent, structured (ID in the body) or binary (ce-id)
//	POST   /relayed            relayed     any body under a webhook-id; without JSON, kept as a string
//
// GET /workspaces/{account} (?mode=test, else live before test) answers its target. GET on /workspaces, /entries,
// /events, /relayed and /emails lists the records, with ?account= those of one account, GET / shows all to a person,
// and GET /openapi.yaml describes the requests.
//
// A request with the header Pawl-Check: true (pawl sinks check) is answered as it would be, and does nothing.
//
// The two APIs want an Idempotency-Key (else 400). The same key with the same bytes gets the remembered answer again,
// with the header Idempotent-Replayed: true; with other bytes 409. A target with a lower "version" than one that was
// taken before is kept in the journal and answered 200, and the workspace stays as it is. The subscriber goes by the
// CloudEvents ID and the consumer by the webhook-id; they take a repeated one for a duplicate whatever it holds. SMTP
// knows no such thing: a message that comes twice is two messages, and "first" is false for the second.
//
// # Stripe's API
//
// POST /stripe/_events tells what happened at Stripe: an event, or a list of them, delivered or not. `pawl send` does
// it before it delivers. Under /stripe/v1 the objects of these events are answered as their last event showed them, in
// the shape that the API has since 2025-03-31.basil, since pawl asks for no older one (credit notes and events as they
// were told): GET customers, subscriptions, invoices, invoice_payments, charges, credit_notes, refunds, disputes,
// radar/early_fraud_warnings, checkout/sessions and events, each as a list and by ID, and invoices/ID/lines. Lists take
// limit, starting_after, created[gte], created[lte], and the filters that pawl asks with; any other parameter is
// refused. An invoice carries its first ten lines. A customer whom an object names is there without an event of its
// own, and so is the charge of a payment, where it is listed by payment_intent.
// expand[]=balance_transaction shows the balance transaction of a charge or a refund, on a balance in dollars. A key is
// rk_ or sk_ and anything; with _live_ or _test_ in it shows that mode, else both. Stripe-Account asks a connected
// account. The events are kept in DIR/stripe/events.jsonl.
//
// # Journal
//
// Each accepted request is one line in DIR/{email,workspaces,finance,events,relayed}.jsonl, written before the answer
// goes out (kill -9 loses none, a power failure may):
//
//	{"at":"2026-01-02T15:04:05.678Z","key":"…","first":true,"account":"…","body":{…}}
//
// key is the Idempotency-Key, the CloudEvents ID, the webhook-id or the Message-ID without its angle brackets; first
// is false when a remembered key answered. The body is the request's, for mail {"to":"a@example.com,
// b@example.com","subject":"…"}; account is the path's, the body's or, for mail and relayed events, that of the
// header X-Pawl-Account or Pawl-Account. "out_of_order":true stands before the body of a workspace's target that a
// fault has let through although it was older. These files are the whole memory: delete them to forget.
//
// # Faults
//
// PUT /stripe/_endpoints sets the webhook endpoints that Stripe has, as a list of its objects.
//
// POST /_faults makes the next requests of one service fail, as docs/sandbox.md says; GET lists the faults to come,
// DELETE (with ?service= or without) clears them. Faults of a service are used up in the order they came; reading (GET)
// uses up none.
package sandbox
