package event

import "sync"

// mostVersions is the maximum number of API versions that get a label of their own. An endpoint normally has one
// version, and two during an upgrade.
const mostVersions = 16

// Versions turns API versions into labels. Its zero value is ready to use. It is safe for concurrent use.
type Versions struct {
	mu    sync.Mutex
	known map[string]bool
}

// Label returns the version, or "other" after [mostVersions] different versions.
func (v *Versions) Label(version string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.known[version] {
		if len(v.known) == mostVersions {
			return "other"
		}
		if v.known == nil {
			v.known = map[string]bool{}
		}
		v.known[version] = true
	}
	return version
}
