package config

import (
	"errors"
	"net"
	"net/netip"
	"strings"
)

// Network is an address range, written as a CIDR prefix or as one address.
type Network struct{ netip.Prefix }

// UnmarshalText parses "10.0.0.0/8" or "192.0.2.7". An IPv4 network in the form of a dual-stack listener,
// "::ffff:192.0.2.7", is converted to IPv4, because addresses are compared in that form.
func (n *Network) UnmarshalText(text []byte) error {
	if p, err := netip.ParsePrefix(string(text)); err == nil {
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		n.Prefix = p.Masked()
		return nil
	}
	a, err := netip.ParseAddr(string(text))
	if err != nil || strings.Contains(a.Zone(), "/") { // "fe80::1%eth0/64" is an address of the zone "eth0/64"
		return errors.New("write a network such as 10.0.0.0/8, or one address")
	}
	a = a.Unmap()
	n.Prefix = netip.PrefixFrom(a, a.BitLen())
	return nil
}

// Reachable converts a listen address to an address that can be dialled on this machine. A listener on every address
// is dialled through loopback.
func Reachable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}
