package webhook

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
)

// standIns are the words that documentation writes in place of a secret, as letters alone.
var standIns = [][]byte{
	[]byte("changeme"), []byte("replaceme"), []byte("placeholder"), []byte("yoursecret"), []byte("yourwebhook"),
	[]byte("yoursigning"),
	[]byte("yourtoken"), []byte("yourapikey"), []byte("yourkey"), []byte("supersecret"), []byte("mysecret"),
	[]byte("secrethere"),
	[]byte("goeshere"), []byte("insertyour"), []byte("pasteyour"), []byte("dummysecret"), []byte("notasecret"),
}

// unfinished are how a note to oneself begins, behind the prefix that some providers give their secrets.
var unfinished = [][]byte{[]byte("<your"), []byte("<secret"), []byte("<insert"), []byte("<the"), []byte("todo_"),
	[]byte("todo-"), []byte("todo "), []byte("todo:"), []byte("fixme"), []byte("tbd_")}

// CheckStandIn refuses what stands where a secret should be, whatever its length: a word of documentation, up to
// eight bytes said over and over, or mostly one character. Anybody can guess these. A random secret of [MinSecret]
// bytes looks like one less than once in ten million times.
func CheckStandIn(secret []byte) error {
	const fix = "; put the secret of the provider in its place"
	lower := bytes.ToLower(secret)
	begin := bytes.TrimPrefix(lower, []byte("whsec_"))
	for _, word := range unfinished {
		if bytes.HasPrefix(begin, word) {
			return fmt.Errorf("it begins with %q and is no secret yet%s", word, fix)
		}
	}
	plain := bytes.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, lower)
	for _, word := range standIns {
		if bytes.Contains(plain, word) {
			return fmt.Errorf("it holds %q and is no secret yet%s", word, fix)
		}
	}
	for _, b := range secret {
		if 2*bytes.Count(secret, []byte{b}) > len(secret) {
			return errors.New("it is mostly one character said again and is no secret" + fix)
		}
	}
	// A text is a whole number of repetitions where it is found again in two of it, before the second.
	if n := len(secret); n > 2 {
		twice := append(secret[1:n:n], secret[:n-1]...)
		if period := bytes.Index(twice, secret) + 1; period > 0 && period <= 8 && period < n {
			return fmt.Errorf("it is %d bytes said %d times and is no secret%s", period, n/period, fix)
		}
	}
	return nil
}

// CheckEd25519 refuses a public key of low order, such as all zeros: anybody can make signatures that fit it. There
// are some ten such keys. A signature of the neutral point and 0 fits at least one message in eight under such a key,
// and no message under any other.
func CheckEd25519(key ed25519.PublicKey) error {
	neutral := make([]byte, ed25519.SignatureSize)
	neutral[0] = 1
	for message := range 256 {
		if ed25519.Verify(key, []byte{byte(message)}, neutral) {
			return errors.New("it is a public key that anybody can sign for; copy the provider's")
		}
	}
	return nil
}
