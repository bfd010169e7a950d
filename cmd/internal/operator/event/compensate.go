package event

import (
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/workflows"
)

// Compensate implements `pawl events compensate`.
var Compensate = decide.Verb{
	Name: workflows.UpdateCompensate, Needs: role.RightMoney, Judges: true, Command: "events compensate", Target: "ID",
	Rule: ruleOf(checkParked, forecastParked), Previews: true, Short: "Compensate the effects of a parked run",
}
