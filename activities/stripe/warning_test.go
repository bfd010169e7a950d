package stripe

import (
	"testing"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

func warningEvent(t testing.TB, version, eventType string) document {
	t.Helper()
	o := example(t, version, "radar.early_fraud_warning")
	set(o, document{"id": "issfr_1", "charge": "ch_1", "payment_intent": "pi_1", "fraud_type": "misc", "actionable": true})
	return eventOf(version, eventType, o)
}

func TestRead_EarlyFraudWarning(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		for eventType, tt := range map[string]struct {
			actionable bool
			rank       fact.Rank
		}{
			"radar.early_fraud_warning.created": {true, fact.RankCreated},
			"radar.early_fraud_warning.updated": {false, fact.RankEnd},
		} {
			event := warningEvent(t, version, eventType)
			objectOf(event)["actionable"] = tt.actionable
			same(t, read(t, event), about(fact.WarningSeen, "issfr_1", "", eventType, tt.rank, fact.Data{Warning: &fact.Warning{
				Charge: "ch_1", PaymentIntent: "pi_1", Type: "misc", Actionable: tt.actionable,
			}}))
		}
	})
}
