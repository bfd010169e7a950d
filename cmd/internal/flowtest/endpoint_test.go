package flowtest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/condition"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/endpoint"
	"github.com/pawlhq/pawl/workflows"
	"github.com/pawlhq/pawl/workflows/schedules"
)

// endpoints sets Stripe's webhook endpoints.
func (r *rig) endpoints(all ...map[string]any) {
	r.Helper()
	body, err := json.Marshal(append([]map[string]any{}, all...))
	if err != nil {
		r.Fatal(err)
	}
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPut, r.sandbox.URL()+"/stripe/_endpoints", strings.NewReader(string(body)))
	if err != nil {
		r.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		r.Fatalf("PUT _endpoints: %d", resp.StatusCode)
	}
}

// told returns the notifications about endpoints that operators would receive.
func (r *rig) told() (says []string) {
	r.Helper()
	reader := condition.Reader{Operator: &decide.Operator{Verbs: operator.Verbs, DB: r.Pool, Temporal: r.Temporal}, Config: r.Config}
	found, err := reader.ReadAll(r.Context(), "endpoint")
	if err != nil {
		r.Fatal(err)
	}
	for _, c := range found {
		says = append(says, c.Message+" | "+c.Command)
	}
	return says
}

// Stripe disables the endpoint and enables it again. The notification contains the command that finds the missed
// events. An API key without permission to read endpoints causes no failure.
func TestSchedule_Endpoint_OffAndOn(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, true, func(c *config.Config) { scheduled(c); c.Policy.Reconcile, c.Policy.Backfill = 0, "off" })
	ours := map[string]any{"id": "we_1", "url": "http://127.0.0.1:1/hooks/stripe", "status": "enabled",
		"api_version": "2025-03-31.basil", "enabled_events": workflows.Types("stripe")}
	look := func(says string) {
		r.Helper()
		workflowID, came := r.trigger(schedules.Endpoint + "stripe")
		if !strings.HasPrefix(came.Message, says) {
			t.Errorf("the check returned %q, want %q", came.Message, says)
		}
		if recording() {
			writeGolden(t, "WatchEndpoint", "looked", r.history(workflowID, ""))
		}
	}
	r.endpoints(ours)
	look("the endpoint matches the source")
	if told := r.told(); len(told) != 0 {
		t.Errorf("notified %q about an enabled endpoint", told)
	}
	ours["status"] = "disabled"
	r.endpoints(ours)
	look("Stripe has disabled endpoint we_1")
	told := r.told()
	if len(told) != 1 || !strings.HasPrefix(told[0], "source stripe: Stripe has disabled endpoint we_1") || !strings.Contains(told[0], " | events backfill stripe --from ") {
		t.Errorf("told %q", told)
	}
	ours["status"] = "enabled"
	r.endpoints(ours)
	look("the endpoint matches the source")
	all, err := endpoint.All(t.Context(), r.Pool, []string{"stripe"})
	if err != nil || len(all) != 1 || all[0].OffUntil == nil || len(r.told()) != 0 {
		t.Errorf("the endpoint is %+v, %v, and people receive %q", all, err, r.told())
	}
	r.fault(`{"service":"stripe","status":403,"path":"webhook_endpoints"}`)
	look("the api_key may not read webhook endpoints")
	if told := r.told(); len(told) != 0 {
		t.Errorf("notified %q about a key", told)
	}
}
