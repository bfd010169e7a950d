package ingress

import (
	"net/http"
	"net/netip"

	"github.com/pawlhq/pawl/ingress/throttle"
)

// sender returns the address that sent r. It logs a warning, once, if r came through an untrusted proxy.
func (s *Server) sender(r *http.Request) netip.Addr {
	trusted := s.cfg.Limits.TrustedProxies
	if throttle.Forwarded(r, trusted) {
		s.proxied.Do(func() {
			s.cfg.Log.Warn("an untrusted address forwarded a request: all senders behind it count as one; "+
				"if it is your proxy, list it in ingress.limits.trusted_proxies", "address", throttle.Peer(r))
		})
	}
	return throttle.Client(r, trusted)
}
