package throttle

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Client returns the address that sent r: the peer of the connection or, if the peer is a trusted proxy, the last
// untrusted address in X-Forwarded-For. A client can write the addresses before that one itself. All X-Forwarded-For
// fields count, because a proxy may add its own field after the client's.
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

// plain returns addr in the form that networks use. No network contains an address with a zone (fe80::1%eth0), and no
// IPv4 network contains IPv4 in IPv6.
func plain(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }

// Contains reports whether one of the networks contains addr.
func Contains(networks []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(addr) })
}
