package event

import "sync"

// mostVersions is how many API versions get their own label. An endpoint has one version, or two during an upgrade.
const mostVersions = 16

// Versions turns API versions into labels. Its zero value is ready, and safe for concurrent use.
type Versions struct {
	mu    sync.Mutex
	known map[string]bool
}

// Label returns the version, or "other" if there are too many versions.
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
