package config

import (
	"errors"
	"net"
	"net/netip"
	"strings"
)

// Network is an address range, written as a CIDR prefix or as one address.
type Network struct{ netip.Prefix }

// UnmarshalText reads "10.0.0.0/8" or "192.0.2.7". IPv4 as a listener for both families shows it,
// "::ffff:192.0.2.7", is the IPv4 network: addresses are compared as such.
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

// Reachable turns a listen address into one that can be dialled from this machine: what listens on every
// address is reached by loopback.
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
