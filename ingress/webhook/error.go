package webhook

import (
	"errors"
	"fmt"
	"time"
)

// Class is the reason of a rejection. Metrics and the answer to the sender contain the class. Only operators see
// [Error].Detail.
type Class string

// These classes are the results of a verification.
const (
	MissingHeader       Class = "missing_header"        // the request lacks a header of the scheme
	MissingSignature    Class = "missing_signature"     // the payload does not contain a signature
	MalformedHeader     Class = "malformed_header"      // a header of the scheme cannot be parsed
	MalformedBody       Class = "malformed_body"        // the body cannot be parsed and the scheme signs parts of it
	NoMatchingSignature Class = "no_matching_signature" // no signature fits any active secret
	BodyHashMismatch    Class = "body_hash_mismatch"    // the signed hash in the URL differs from the body's hash
	TimestampTooOld     Class = "timestamp_too_old"
	TimestampTooNew     Class = "timestamp_too_new"
	UntrustedCert       Class = "untrusted_certificate" // the certificate is not the provider's
)

// These are the classes of requests that the server rejects before it verifies them. It has not read the body, or only
// a part of the body.
const (
	TooLarge        Class = "too_large"
	ContentEncoding Class = "content_encoding"
	SlowBody        Class = "slow_body"
	UnreadableBody  Class = "unreadable_body"
)

// Incomplete reports whether a request of class c was rejected before its whole body was read.
func (c Class) Incomplete() bool {
	switch c {
	case TooLarge, ContentEncoding, SlowBody, UnreadableBody:
		return true
	}
	return false
}

// Malformed reports whether a request of class c would be rejected under any secret. Such a request gets the answer
// 400. A wrong signature or time gets 401.
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
	// Skew is the receive time minus the signed time. It is set only with [TimestampTooOld] and [TimestampTooNew].
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
