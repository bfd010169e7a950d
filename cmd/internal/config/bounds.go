package config

import "fmt"

// Bounds say how much of a worker's work one sink, or one consumer, can hold.
type Bounds struct {
	// Places is how many effects are in flight at once from each worker process; default 16. For each mode, where the
	// sink is per mode.
	Places int `yaml:"places"`
	// Rate is how many may begin each second in each worker process; default any number.
	Rate int `yaml:"rate"`
}

// sinkPlaces is more than a sink needs that answers: at 100 ms each, 16 are 160 effects a second from one process, and
// an engine on two cores runs about a hundred events. It is few enough for a mail server, and for a small API that is
// met by all that had waited.
const sinkPlaces = 16

// mostPlaces bounds the goroutines of one sink.
const mostPlaces = 1000

func (b *Bounds) setDefaults() { or(&b.Places, sinkPlaces) }

func (c *checker) boundsOf(key string, b Bounds) {
	if at := key + ".places"; c.written[at] && (b.Places < 1 || b.Places > mostPlaces) {
		c.bad(at, fmt.Sprintf("is %d", b.Places),
			fmt.Sprintf("write 1 to %d, or leave it out for %d", mostPlaces, sinkPlaces))
	}
	if at := key + ".rate"; c.written[at] && b.Rate < 1 {
		c.bad(at, fmt.Sprintf("is %d", b.Rate), "write how many may begin each second, or leave it out for any number")
	}
}
