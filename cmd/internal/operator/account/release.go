package account

import "github.com/pawlhq/pawl/cmd/internal/operator/decide"

// Release implements `pawl accounts release`.
var Release = decide.Verb{
	Name: "release-account", Command: "accounts release", Target: "ID", Rule: holdRule(false),
	Flags:    []decide.Flag{decide.FlagMode},
	Previews: true, Short: "Restore the access of an account on hold",
	Long: `Restore the access of an account on hold: its payments determine access and workspace again.` + ofAccount,
}
