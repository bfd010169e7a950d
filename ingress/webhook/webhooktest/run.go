package webhooktest

import "testing"

// Run runs the suite.
func Run(t *testing.T, s Suite) {
	t.Helper()
	if s.Sign == nil {
		s.Sign = s.Provider.Sign
	}
	if s.Sign == nil || len(s.Headers) == 0 && !s.BodyUnsigned {
		t.Fatal("webhooktest: the suite needs a signer and the scheme's headers")
	}
	t.Run("Valid", s.testValid)
	t.Run("Headers", s.testHeaders)
	t.Run("Kept", s.testKept)
	t.Run("Content", s.testContent)
	t.Run("Contract", s.testContract)
	if !s.NoSecret {
		t.Run("Rotation", s.testRotation)
		t.Run("New", s.testNew)
	}
	if s.Join != nil {
		t.Run("SeveralSignatures", s.testSeveralSignatures)
	}
	if tolerance := s.tolerance(); tolerance != 0 {
		t.Run("Clock", func(t *testing.T) { s.testClock(t, tolerance) })
	}
	if !s.BodyUnsigned {
		t.Run("ChangedBody", s.testChangedBody)
	}
}
