package webhook

import (
	"errors"
	"fmt"
	"time"
)

// Class is the reason of a rejection. Metrics count it, and the answer contains it. The detail beside it is for
// operators only.
type Class string

// The classes of rejection.
const (
	MissingHeader       Class = "missing_header"        // the request lacks a header of the scheme
	MissingSignature    Class = "missing_signature"     // the payload lacks the signature that it should carry
	MalformedHeader     Class = "malformed_header"      // a header of the scheme cannot be parsed
	MalformedBody       Class = "malformed_body"        // the body cannot be parsed and the scheme signs parts of it
	NoMatchingSignature Class = "no_matching_signature" // no signature fits any active secret
	BodyHashMismatch    Class = "body_hash_mismatch"    // the signed hash in the URL differs from the body's hash
	TimestampTooOld     Class = "timestamp_too_old"
	TimestampTooNew     Class = "timestamp_too_new"
	UntrustedCert       Class = "untrusted_certificate" // the certificate is not the provider's
)

// The classes of requests with an unread or partly read body. The listener rejects them before anything is verified.
const (
	TooLarge        Class = "too_large"
	ContentEncoding Class = "content_encoding"
	SlowBody        Class = "slow_body"
	UnreadableBody  Class = "unreadable_body"
)

// Incomplete reports whether a request of class c was refused without its whole body.
func (c Class) Incomplete() bool {
	switch c {
	case TooLarge, ContentEncoding, SlowBody, UnreadableBody:
		return true
	}
	return false
}

// Malformed reports whether no secret could admit a request of class c. The answer is then 400. A rejected signature or
// clock gets 401.
func (c Class) Malformed() bool {
	switch c {
	case MissingHeader, MissingSignature, MalformedHeader, MalformedBody:
		return true
	}
	return false
}

// Error is a rejection.
type Error struct {
	Class Class
	// Detail explains the rejection to an operator. It never contains a secret, a signature or a body.
	Detail string
	// Skew is how long before its receipt the request was signed; it is negative if the signed time is later. It is set
	// only with [TimestampTooOld] and [TimestampTooNew].
	Skew time.Duration
	// Header is the name of the missing header. It is set only with [MissingHeader].
	Header string
}

func (e *Error) Error() string { return string(e.Class) + ": " + e.Detail }

// Errorf returns an *Error of class c.
func Errorf(c Class, format string, args ...any) error {
	return &Error{Class: c, Detail: fmt.Sprintf(format, args...)}
}

// Refuse returns the result of a Verify that rejects a request: no match, and an *Error of class c.
func Refuse(c Class, format string, args ...any) (Match, error) {
	return Match{}, Errorf(c, format, args...)
}

// ClassOf returns the class of err. It returns false if err is not a rejection.
func ClassOf(err error) (Class, bool) {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return "", false
	}
	return e.Class, true
}
