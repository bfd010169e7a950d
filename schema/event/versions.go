package event

import "sync"

// mostVersions is how many API versions have a label of their own. An endpoint has one, and another while it is moved.
const mostVersions = 16

// Versions makes labels of the API versions that come. Its zero value is ready, and safe for concurrent use.
type Versions struct {
	mu    sync.Mutex
	known map[string]bool
}

// Label returns the version, or "other" once there are too many.
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
