package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// What comes from outside moves no text on a terminal, also as JSON, and reads back as it was.
func TestWriteJSON_HiddenCharacters_Escaped(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	a := &app{stdio: stdio{out: &out}}
	const name = "a\u202eb\u0085c\U000e0001d\u2028<é>"
	if err := a.writeJSON(map[string]string{"type": name}); err != nil {
		t.Fatal(err)
	}
	if want := `"a\u202eb\u0085c\udb40\udc01d\u2028<é>"`; !strings.Contains(out.String(), want) {
		t.Errorf("got %s, want %s", out.String(), want)
	}
	var back map[string]string
	if err := json.Unmarshal([]byte(out.String()), &back); err != nil || back["type"] != name {
		t.Errorf("it reads back as %q, %v", back["type"], err)
	}
}
