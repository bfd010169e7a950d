package config

import (
	"errors"
	"net/netip"
)

// Network is an address range, written as a CIDR prefix or as one address.
type Network struct{ netip.Prefix }

// UnmarshalText reads "10.0.0.0/8" or "192.0.2.7".
func (n *Network) UnmarshalText(text []byte) error {
	if p, err := netip.ParsePrefix(string(text)); err == nil {
		n.Prefix = p.Masked()
		return nil
	}
	a, err := netip.ParseAddr(string(text))
	if err != nil {
		return errors.New("write a network such as 10.0.0.0/8, or one address")
	}
	n.Prefix = netip.PrefixFrom(a, a.BitLen())
	return nil
}
