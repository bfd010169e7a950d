package throttle

import (
	"net"
	"net/http"
)

// Listen wraps l in the same way as [Connections.Serve].
func (cs *Connections) Listen(l net.Listener) net.Listener { return &listener{l, cs} }

// Follow records a change of c's state, as a server does.
func (cs *Connections) Follow(c net.Conn, state http.ConnState) { cs.follow(c, state) }
