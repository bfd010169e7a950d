package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/cmd/internal/capture"
	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
	"github.com/pawlhq/pawl/cmd/internal/config"
	rejections "github.com/pawlhq/pawl/cmd/internal/operator/rejection"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/ingress/twilio"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/rejection"
	"github.com/pawlhq/pawl/schema/schematest"
)

const providersSecret = "whsec_the_one_that_stripe_signs_with"

// The test covers the whole procedure: Stripe signs with a secret that pawl does not have, an operator finds the
// reason, adds the secret, and admits the request. A second admission results in the same receipt.
func TestRejections_ListShowAdmit(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"stripe": "stripe"})
	g := commandtest.NewGate(t, s, dsn)
	body := []byte(`{"id":"evt_1","object":"event","type":"invoice.paid","livemode":true,"data":{"object":{"id":"in_1","customer_email":"ada@example.com"}}}`)
	if got := g.Post(t, "/hooks/stripe?token=hush", webhook.SignInput{Secret: providersSecret, Body: body}); got.Code != http.StatusUnauthorized {
		t.Fatalf("answered %d, want 401", got.Code)
	}
	g.Stop()

	list := commandtest.Decode[[]rejections.Shown](t, s.Pawl(t, "rejections", "list", "--json"))
	if len(list) != 1 || list[0].Class != "no_matching_signature" || list[0].AdmittedAt != nil {
		t.Fatalf("list: %+v", list)
	}
	id := list[0].ID
	for _, args := range [][]string{{"rejections", "show", id}, {"rejections", "show", id, "--json"}, {"rejections", "list"}} {
		r := s.Pawl(t, args...)
		if r.Code != 0 || strings.Contains(r.Out, "v1=") || strings.Contains(r.Out, "hush") || strings.Contains(r.Out, "ada@example.com") {
			t.Errorf("%v: exit %d, a signature, a token or a name is shown:\n%s", args, r.Code, r.Out)
		}
	}
	if r := s.Pawl(t, "rejections", "show", id); !strings.Contains(r.Out, `"id": "evt_1"`) || !strings.Contains(r.Out, "(15 characters)") || !strings.Contains(r.Out, "masked") {
		t.Errorf("show:\n%s", r.Out)
	}
	reveals := func() (n int) {
		t.Helper()
		if err := g.Pool.QueryRow(t.Context(), `select count(*) from operator_actions where action = 'reveal-rejection' and actor like 'uid:% ada' and target = $1 and reason = 'stripe asks'`, id).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, flag := range []string{"--request", "--reveal"} {
		if r := s.Pawl(t, "rejections", "show", id, flag); r.Code != command.ExitUsage || !strings.Contains(r.Err, "--reason") || r.Out != "" || reveals() != 0 {
			t.Errorf("%s without a reason: exit %d, %s%s", flag, r.Code, r.Out, r.Err)
		}
	}
	if r := s.Pawl(t, "rejections", "show", id, "--reveal", "--reason", "stripe asks", "--as", "ada"); !strings.Contains(r.Out, "ada@example.com") || strings.Contains(r.Out, "v1=") || reveals() != 1 {
		t.Errorf("revealed: exit %d, %d times in the audit trail\n%s%s", r.Code, reveals(), r.Out, r.Err)
	}

	// Another program can verify the printed request. `pawl verify` fails with the source's secret until the secret
	// is corrected.
	printed := s.Pawl(t, "rejections", "show", id, "--request", "--reason", "stripe asks", "--as", "ada")
	if n := reveals(); n != 2 {
		t.Errorf("--request: %d reveals in the audit trail, want 2", n)
	}
	if claimed := commandtest.Decode[capture.File](t, printed).Claimed; len(claimed) != 1 || claimed[0] != (capture.Claim{EventID: "evt_1", Type: "invoice.paid"}) || !strings.Contains(printed.Out, `"claimed_unverified"`) {
		t.Errorf("claimed %+v:\n%s", claimed, printed.Out)
	}
	if strings.Contains(printed.Out, commandtest.Secret) {
		t.Error("the source's secret is printed")
	}
	for _, tt := range []struct {
		with  commandtest.Stack
		valid bool
	}{{s, false}, {s.With("SECRET", providersSecret), true}} {
		request, err := capture.Read([]byte(printed.Out), program().Providers)
		if err != nil {
			t.Fatal(err)
		}
		cfg, _ := tt.with.Open(t, dsn)
		settings := cfg.Settings("stripe")
		request.Source = &settings
		if v, err := request.Verify(); err != nil || v.Valid != tt.valid {
			t.Errorf("valid: %t (%v), want %t", v.Valid, err, tt.valid)
		}
	}

	// Before the secret is corrected, the request is not admitted, and the reason is printed.
	r := s.Pawl(t, "rejections", "admit", id, "--reason", "try")
	if r.Code != 1 || !strings.Contains(r.Err, "still refused") {
		t.Errorf("admit before it is mended: exit %d, %s", r.Code, r.Err)
	}
	mended := s.With("SECRET", providersSecret)
	if r := mended.Pawl(t, "rejections", "admit", id); r.Code != 2 || !strings.Contains(r.Err, "--reason") {
		t.Errorf("admit without a reason: exit %d, %s", r.Code, r.Err)
	}
	admit := func() answerOf[rejections.Admission] {
		return commandtest.Decode[answerOf[rejections.Admission]](t, mended.Pawl(t, "rejections", "admit", id, "--reason", "secret mended", "--as", "ada", "--request-id", "one", "--json"))
	}
	first := admit().Result
	var before, after string
	const deliveries = `select (select count(*) from deliveries) || ' ' || (select duplicates from receipts)`
	if err := g.Pool.QueryRow(t.Context(), deliveries).Scan(&before); err != nil {
		t.Fatal(err)
	}
	if again := admit(); !again.Repeated || len(again.Result.Receipts) != 1 || again.Result.Receipts[0].ID != first.Receipts[0].ID || again.Result.Secret != first.Secret {
		t.Errorf("repeated: %+v, want %+v", again, first)
	}
	if err := g.Pool.QueryRow(t.Context(), deliveries).Scan(&after); err != nil || after != before {
		t.Errorf("repeated, deliveries and duplicates are %s, %v; want %s", after, err, before)
	}
	second := commandtest.Decode[answerOf[rejections.Admission]](t, mended.Pawl(t, "rejections", "admit", id, "--reason", "again", "--as", "ada", "--json")).Result
	if len(first.Receipts) != 1 || first.Receipts[0].Duplicate || first.Receipts[0].Status != receipt.Received || first.Receipts[0].EventID != "evt_1" {
		t.Errorf("first: %+v", first)
	}
	if len(second.Receipts) != 1 || !second.Receipts[0].Duplicate || second.Receipts[0].ID != first.Receipts[0].ID {
		t.Errorf("second: %+v", second)
	}
	var receipts, actions int
	if err := g.Pool.QueryRow(t.Context(), `select (select count(*) from receipts), (select count(*) from operator_actions where action = 'admit' and actor like 'uid:% ada' and target = $1)`, id).Scan(&receipts, &actions); err != nil {
		t.Fatal(err)
	}
	if receipts != 1 || actions != 2 {
		t.Errorf("%d receipts and %d audited actions, want 1 and 2", receipts, actions)
	}
	if _, _, err := audit.New(g.Pool, slog.New(slog.DiscardHandler)).Verify(t.Context(), ""); err != nil {
		t.Error(err)
	}
	if r := s.Pawl(t, "events", "show", "evt_1"); !strings.Contains(r.Out, "operator-admit") || !strings.Contains(r.Out, "ada: secret mended") {
		t.Errorf("the event does not show who admitted it and the reason:\n%s", r.Out)
	}
	if list := commandtest.Decode[[]rejections.Shown](t, s.Pawl(t, "rejections", "list", "--json")); list[0].AdmittedAt == nil {
		t.Error("the rejection does not show that it was admitted")
	}
}

// A signature is never printed, whatever the name of its header is: PayPal's header contains "sig", and hmac's header
// is configured.
func TestRejections_Show_SignatureUnderAnyName(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"stripe": "stripe"})
	content, err := os.ReadFile(s.File)
	if err != nil {
		t.Fatal(err)
	}
	commandtest.Write(t, s.File, string(content)+"  tickets: {provider: hmac, mode: live, options: {header: x-checksum, template: '{body}'}, secrets: [{value: env:SECRET}]}\n")
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	const id = "00000000-0000-0000-0000-000000000001"
	err = rejection.New(pool).Keep(t.Context(), []rejection.Rejection{{ID: id, Source: "tickets", ReceivedAt: time.Now(), Method: http.MethodPost,
		Header: http.Header{"X-Checksum": {"hush"}, "Paypal-Transmission-Sig": {"hush"}, "X-Design": {"plain"}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"rejections", "show", id}, {"rejections", "show", id, "--json"}} {
		for _, plain := range []bool{false, true} {
			if plain {
				args = append(args, "--reveal", "--reason", "a test")
			}
			r := s.Pawl(t, args...)
			if r.Code != 0 || strings.Contains(r.Out, "hush") || strings.Contains(r.Out, "plain") != plain {
				t.Errorf("%v: exit %d, %s; want the signatures hidden, and the rest where it is revealed:\n%s", args, r.Code, r.Err, r.Out)
			}
		}
	}
}

// A request of last week is verified with its own time of receipt, and a changed request is never admitted.
func TestRejections_Admit_OwnReceiveTime_Tampered_Truncated(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"stripe": "stripe"})
	g := commandtest.NewGate(t, s, dsn)
	at := time.Now().Add(-6 * 24 * time.Hour)
	body := []byte(`{"id":"evt_old","object":"event","type":"invoice.paid","livemode":true,"data":{"object":{"id":"in_1"}}}`)
	out, err := stripe.Provider.Sign(webhook.SignInput{Secret: commandtest.Secret, At: at, Body: body})
	if err != nil {
		t.Fatal(err)
	}
	kept := rejection.Rejection{Source: "stripe", ReceivedAt: at, Class: "no_matching_signature", Method: "POST", Header: out.Header, Body: body}
	tampered, truncated, unread, late, gone := kept, kept, kept, kept, kept
	unread.ID, unread.Truncated, unread.Body, unread.BodySize = "00000000-0000-7000-8000-000000000006", true, nil, 0
	cut := kept
	cut.ID, cut.Truncated, cut.BodySize = "00000000-0000-7000-8000-000000000007", true, int64(len(body)+9)
	kept.ID = "00000000-0000-7000-8000-000000000001"
	tampered.ID, tampered.Body = "00000000-0000-7000-8000-000000000002", bytes.Replace(body, []byte("in_1"), []byte("in_2"), 1)
	truncated.ID, truncated.Truncated, truncated.BodySize = "00000000-0000-7000-8000-000000000003", true, int64(len(body))
	late.ID, late.ReceivedAt = "00000000-0000-7000-8000-000000000004", time.Now()
	gone.ID, gone.Source = "00000000-0000-7000-8000-000000000005", "former"
	unsigned := kept
	unsigned.ID, unsigned.Header = "00000000-0000-7000-8000-000000000008", nil
	if err := rejection.New(g.Pool).Keep(t.Context(), []rejection.Rejection{kept, tampered, truncated, unread, cut, late, gone, unsigned}); err != nil {
		t.Fatal(err)
	}
	for id, says := range map[string]string{
		tampered.ID:                            "no_matching_signature",
		truncated.ID:                           fmt.Sprintf("pawl read only the first %d bytes of its body", len(body)),
		unread.ID:                              "pawl did not read its body",
		cut.ID:                                 fmt.Sprintf("pawl stored only %d of its %d bytes", len(body), len(body)+9),
		late.ID:                                "timestamp_too_old",
		gone.ID:                                "not configured any more",
		unsigned.ID:                            "missing_header: header Stripe-Signature is missing\n", // once
		"00000000-0000-7000-8000-000000000009": "no rejection",
	} {
		if r := s.Pawl(t, "rejections", "admit", id, "--reason", "try"); r.Code != 1 || !strings.Contains(r.Err, says) {
			t.Errorf("%s: exit %d, %q; want %q in the output", id, r.Code, r.Err, says)
		}
	}
	if r := s.Pawl(t, "rejections", "show", unread.ID); !strings.Contains(r.Out, "not read") {
		t.Errorf("show of a body that was not read:\n%s", r.Out)
	}
	admission := commandtest.Decode[answerOf[rejections.Admission]](t, s.Pawl(t, "rejections", "admit", kept.ID, "--reason", "mended", "--json")).Result
	if len(admission.Receipts) != 1 || admission.Receipts[0].EventID != "evt_old" {
		t.Errorf("admission %+v", admission)
	}
	var n int
	if err := g.Pool.QueryRow(t.Context(), `select count(*) from receipts`).Scan(&n); err != nil || n != 1 {
		t.Errorf("%d receipts, %v; want 1", n, err)
	}
}

// A body that is neither JSON nor a form is printed only if the operator requests it.
func TestRejections_Show_NotMaskable(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"stripe": "stripe"})
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	bodies := map[string]string{
		"00000000-0000-0000-0000-000000000001": "<name>Ada</name>",
		"00000000-0000-0000-0000-000000000002": "x" + strings.Repeat("日", rejection.MaxBody/3+9),
		"00000000-0000-0000-0000-000000000003": "caf\xe9 au lait",
	}
	for id, body := range bodies {
		if err := rejection.New(pool).Keep(t.Context(), []rejection.Rejection{{ID: id, Source: "stripe", ReceivedAt: time.Now(), Method: http.MethodPost, Body: []byte(body)}}); err != nil {
			t.Fatal(err)
		}
		size := fmt.Sprintf("%d bytes, cannot be masked", len(body))
		if len(body) > rejection.MaxBody {
			size = fmt.Sprintf("%d bytes, only the beginning is stored, cannot be masked", len(body))
		}
		if r := s.Pawl(t, "rejections", "show", id); r.Code != 0 || !strings.Contains(r.Out, size) || strings.Contains(r.Out, "Ada") || strings.Contains(r.Out, "日") || strings.Contains(r.Out, "caf") {
			t.Errorf("masked: exit %d, want %q:\n%.400s%s", r.Code, size, r.Out, r.Err)
		}
		whole := s.Pawl(t, "rejections", "show", id, "--reveal", "--reason", "a test")
		switch {
		case strings.HasPrefix(body, "caf"):
			if !strings.Contains(whole.Out, "not text") || strings.Contains(whole.Out, "\xe9") {
				t.Errorf("revealed, no text: %.400q", whole.Out)
			}
		case !strings.Contains(whole.Out, body[:16]) || !utf8.ValidString(whole.Out):
			t.Errorf("revealed: %.400s", whole.Out)
		}
	}
}

// The diagnosis of a repeated rejection uses the original URL, without a query if there was none.
func TestReverifier_URLSigned_Explained(t *testing.T) {
	t.Parallel()
	s := setup(t, "postgres://localhost/none", map[string]string{"stripe": "stripe"})
	content, err := os.ReadFile(s.File)
	if err != nil {
		t.Fatal(err)
	}
	commandtest.Write(t, s.File, string(content)+"  calls: {provider: twilio, mode: live, url: 'https://shop.example/in', "+
		"secrets: [{value: env:SECRET, not_after: 2020-01-01T00:00:00Z}]}\n")
	cfg, err := config.Load(s.File, s.Variable, program().Providers)
	if err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{"", "a=1"} {
		url := strings.TrimSuffix("https://shop.example/in?"+query, "?")
		out, err := twilio.Provider.Sign(webhook.SignInput{Secret: commandtest.Secret, URL: url, Body: []byte("CallSid=CA1&CallStatus=completed")})
		if err != nil {
			t.Fatal(err)
		}
		_, err = capture.Reverifier(cfg, program().Providers)(t.Context(), rejection.Rejection{Source: "calls", Method: http.MethodPost, Query: query, Header: out.Header, Body: out.Body, ReceivedAt: time.Now()})
		if err == nil || !strings.Contains(err.Error(), "expired 2020-01-01") {
			t.Errorf("query %q: %v; want the secret's end", query, err)
		}
	}
}

// GitLab's token is a password that each request contains. pawl stores only the token's hash with a rejected request.
// The hash is sufficient to verify the request after the correction, and useless to a reader of the database.
func TestRejections_Token_KeptAsHash_StillAdmitted(t *testing.T) {
	t.Parallel()
	const token = "glwt-abcdefghijklmnopqrstuvw"
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"gitlab": "gitlab, mode: live"}).With("SECRET", "glwt-the-one-before-this-one")
	body := []byte(`{"object_kind":"push","project_id":7}`)
	send := func(g commandtest.Gate, token string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/hooks/gitlab?private_token="+token, bytes.NewReader(body))
		r.Header = http.Header{"X-Gitlab-Token": {token}, "X-Gitlab-Event": {"Push Hook"}, "Idempotency-Key": {"d-1"}, "Content-Type": {"application/json"}, "Cookie": {token}}
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		return w.Code
	}
	g := commandtest.NewGate(t, s, dsn)
	if got := send(g, token); got != http.StatusUnauthorized {
		t.Fatalf("answered %d, want 401", got)
	}
	g.Stop()
	mended := s.With("SECRET", token)
	id := commandtest.Decode[[]rejections.Shown](t, s.Pawl(t, "rejections", "list", "--json"))[0].ID
	if r := s.Pawl(t, "rejections", "admit", id, "--reason", "try"); r.Code != 1 || !strings.Contains(r.Err, "no_matching_signature") {
		t.Errorf("admit before it is mended: exit %d, %s", r.Code, r.Err)
	}
	admission := commandtest.Decode[answerOf[rejections.Admission]](t, mended.Pawl(t, "rejections", "admit", id, "--reason", "mended", "--json")).Result
	if len(admission.Receipts) != 1 || admission.Receipts[0].EventID != "d-1" || admission.Receipts[0].Type != "Push Hook" {
		t.Errorf("admission %+v", admission)
	}

	live := commandtest.NewGate(t, mended, dsn)
	if got := send(live, token); got != http.StatusOK {
		t.Errorf("the same from the network: answered %d, want 200: it is here already", got)
	}
	hash := webhook.HashToken(token)
	if got := send(live, hex.EncodeToString(hash[:])); got != http.StatusUnauthorized {
		t.Errorf("the hash in the token's place: answered %d, want 401", got)
	}
	live.Stop()
	var held string
	err := g.Pool.QueryRow(t.Context(), `select (select string_agg(r::text, ' ') from rejections r) || (select string_agg(b.headers::text, ' ') from receipt_bodies b)`).Scan(&held)
	if err != nil {
		t.Fatal(err)
	}
	for name, secret := range map[string]string{"the token": token, "the token in base64": base64.StdEncoding.EncodeToString([]byte(token)), "the token in hex": hex.EncodeToString([]byte(token))} {
		if strings.Contains(held, secret) {
			t.Errorf("%s is in the database: %s", name, held)
		}
	}
}
