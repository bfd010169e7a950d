package ingress

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// sender returns who sent r, and tells once where a proxy hides it.
func (s *Server) sender(r *http.Request) netip.Addr {
	from := remoteAddr(r, s.cfg.Limits.TrustedProxies)
	if r.Header.Get("X-Forwarded-For") != "" && from == peerOf(r) && !contains(s.cfg.Limits.TrustedProxies, from) {
		s.proxied.Do(func() {
			s.cfg.Log.Warn("a request was forwarded by an address that is not trusted: whoever it forwards for counts as one sender; "+
				"if it is your proxy, list it in ingress.limits.trusted_proxies", "address", from)
		})
	}
	return from
}

// remoteAddr returns who sent r: the peer, or behind trusted proxies the last address in
// X-Forwarded-For that is not one of them. Anybody may have written the addresses left of that.
func remoteAddr(r *http.Request, trusted []netip.Prefix) netip.Addr {
	addr := peerOf(r)
	if len(trusted) == 0 || !contains(trusted, addr) {
		return addr
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop, ok := parseHop(strings.TrimSpace(hops[i]))
		if !ok {
			break
		}
		addr = plain(hop)
		if !contains(trusted, addr) {
			break
		}
	}
	return addr
}

// peerOf returns the address at the other end of r's connection.
func peerOf(r *http.Request) netip.Addr {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr)
	return plain(peer.Addr())
}

// parseHop reads one address of X-Forwarded-For. Some proxies add the port, as Azure's Application
// Gateway does, or write an IPv6 address in brackets.
func parseHop(text string) (netip.Addr, bool) {
	if with, err := netip.ParseAddrPort(text); err == nil {
		return with.Addr(), true
	}
	if inner, ok := strings.CutPrefix(text, "["); ok {
		text = strings.TrimSuffix(inner, "]")
	}
	addr, err := netip.ParseAddr(text)
	return addr, err == nil
}

// plain returns addr as networks are written: an address with a zone (fe80::1%eth0) is in none, and IPv4 in
// IPv6 in none of IPv4.
func plain(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }

func contains(prefixes []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
}
