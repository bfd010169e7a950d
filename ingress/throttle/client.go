package throttle

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Client returns the address that sent r: the peer of the connection or, if the peer is a trusted proxy, the last
// untrusted address in X-Forwarded-For. The client may have forged the addresses before the last untrusted address.
// Client reads all X-Forwarded-For fields, because a proxy may add a second field.
func Client(r *http.Request, trusted []netip.Prefix) netip.Addr {
	addr := Peer(r)
	if !Contains(trusted, addr) {
		return addr
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		parsed, ok := parseHop(strings.TrimSpace(hop))
		if !ok {
			break
		}
		addr = plain(parsed)
		if !Contains(trusted, addr) {
			break
		}
	}
	return addr
}

// Forwarded reports whether r was forwarded by a peer that is not trusted.
func Forwarded(r *http.Request, trusted []netip.Prefix) bool {
	return r.Header.Get("X-Forwarded-For") != "" && !Contains(trusted, Peer(r))
}

// Peer returns the address at the other end of r's connection.
func Peer(r *http.Request) netip.Addr {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr)
	return plain(peer.Addr())
}

// parseHop reads one address of X-Forwarded-For. Some proxies add the port, as Azure's Application Gateway does, or
// write an IPv6 address in brackets.
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

// plain removes the zone of addr (fe80::1%eth0), and converts an IPv4 address in IPv6 to IPv4. netip.Prefix.Contains
// would return false for both forms.
func plain(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }

// Contains reports whether one of the networks contains addr.
func Contains(networks []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(addr) })
}
