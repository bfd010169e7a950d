// Package sandbox replaces the external systems in `pawl dev` and in tests: an SMTP server, a workspace API, a finance
// API, a destination of CloudEvents, a destination of relayed events, and the part of Stripe's API that pawl reads. All
// of them use real sockets and store each accepted request, also across a restart. A test counts effects there instead
// of assuming that they happened once.
//
// # Services
//
//	SMTP                     email          any message; no TLS, no authentication
//	PUT /workspaces/ACCOUNT  workspaces     a JSON object: the target state, one per "mode"
//	POST /entries            finance        a JSON object with the field "account"
//	POST /sinks/NAME/…       sinks          a request of a flow with any JSON or no body; also GET, PUT, PATCH, DELETE
//	POST /events             events         a CloudEvent, structured (ID in the body) or binary (ce-id)
//	POST /relayed            relayed        any body with a webhook-id; stored as a string if it is not JSON
//	POST /notifications      notifications  a message to people, as a JSON object
//
// GET /workspaces/ACCOUNT returns the target of a workspace; ?mode=test selects the mode, and without it live comes
// before test. GET on /workspaces, /entries, /sinks, /events, /relayed, /notifications and /emails lists the records;
// ?account= selects an account. GET / is a page with all records. GET /openapi.yaml describes the requests.
//
// The sandbox answers a request with the header Pawl-Check: true (pawl sinks check) without storing it.
//
// The answer to a request of a flow contains the fields of its body and, unless the body contains one, an "id" that
// depends on the Idempotency-Key.
//
// Workspaces, finance, sinks and notifications require an Idempotency-Key (otherwise 400). A repeated key with the same
// bytes returns the first answer with the header Idempotent-Replayed: true. A repeated key with other bytes returns
// 409. A workspace target with a lower "version" than the current one is stored in the journal and answered with 200,
// and the workspace does not change. A CloudEvent is identified by its ID, and a relayed event by its webhook-id; a
// repeated ID is a duplicate even if its body differs. SMTP has no keys: a repeated message is a second message, with
// "first" set to false.
//
// # Stripe's API
//
// POST /stripe/_events records one event or a list of events, delivered or not. `pawl send` does this before it
// delivers an event. The paths under /stripe/v1 return the objects of these events in their latest state. They use the
// format of 2025-03-31.basil, the oldest version that pawl requests; credit notes and events keep their format.
// Supported are GET of customers, subscriptions, invoices, invoice_payments, charges, credit_notes, refunds, disputes,
// radar/early_fraud_warnings, checkout/sessions and events, each as a list and by ID, and of invoices/ID/lines. Lists
// accept limit, starting_after, created[gte], created[lte] and the filters that pawl uses. Any other parameter is an
// error. An invoice contains its first ten lines. A customer that another object names exists without an event of its
// own. The charge of a payment exists in lists by payment_intent.
//
// expand[]=balance_transaction returns the balance transaction of a charge or a refund, on a balance in US dollars. An
// API key is rk_ or sk_ followed by anything. A key with _live_ or _test_ reads only this mode, any other key both. The
// header Stripe-Account names a connected account in API v1, Stripe-Context in v1 and v2. DIR/stripe/events.jsonl
// stores the events.
//
// PUT /stripe/_endpoints sets the webhook endpoints of the account, as a list of objects.
//
// # Journal
//
// Each accepted request is one line in DIR/{email,workspaces,finance,sinks,events,relayed,notifications}.jsonl. The
// line is written before the answer. A kill -9 loses no line; a power failure can.
//
//	{"received_at":"2026-01-02T15:04:05.678Z","key":"…","first":true,"account":"…","body":{…}}
//
// key is the Idempotency-Key, the CloudEvents ID, the webhook-id, or the Message-ID without angle brackets. first is
// false for a repeated key. body is the body of the request; for an email {"to":"a@example.com, b@example.com",
// "subject":"…"}. account comes from the path or the body; for emails and relayed events it comes from the header
// X-Pawl-Account or Pawl-Account. "out_of_order":true marks an older workspace target that a fault applied. The
// journals are the only state: delete them to start again.
//
// # Faults
//
// POST /_faults makes the next requests of one service fail; docs/sandbox.md describes the fields. GET lists the
// pending faults. DELETE removes them; ?service= selects a service. The faults of a service apply in the order in which
// they were added. Reading (GET) uses up no fault.
package sandbox
