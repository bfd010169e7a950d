package label

import "strings"

// refusal describes a class of refused deliveries.
type refusal struct {
	// why is a clause, and next a sentence with the next step.
	why, next string
}

// Refusal returns the reason why deliveries of a class were refused, as a clause. An unknown class keeps its own words.
func Refusal(class string) string {
	if r, known := refusals[class]; known {
		return r.why
	}
	return strings.ReplaceAll(class, "_", " ")
}

// RefusalNext returns the next step for refused deliveries of a class.
func RefusalNext(class string) string {
	if r, known := refusals[class]; known {
		return r.next
	}
	return "Read the diagnosis of each delivery."
}

const (
	sendAgain   = "Let the provider send the delivery again. pawl did not read all of it, so it cannot admit it."
	askProvider = "Check in the provider's dashboard which system sends to this address, and which kind of webhook it sends."
)

// refusals has an entry for each class of refused deliveries.
var refusals = map[string]refusal{
	"no_matching_signature": {"no secret of the source fits the signature",
		"Compare the secret of the source with the secret in the provider's dashboard. If they differ, correct the secret, restart pawl, and then admit the deliveries. If they are equal, the deliveries are not from the provider: do nothing."},
	"missing_header": {"a header of the signature is missing", askProvider +
		" A delivery without a signature cannot be admitted."},
	"missing_signature": {"the delivery has no signature", askProvider +
		" A delivery without a signature cannot be admitted."},
	"malformed_header": {"a header of the signature cannot be read", askProvider +
		" Compare the provider in the configuration of the source."},
	"malformed_body": {"the content cannot be read", askProvider +
		" Compare the provider in the configuration of the source."},
	"body_hash_mismatch": {"the content was changed on its way",
		"Check whether a proxy in front of pawl changes the content of requests. Then let the provider send the deliveries again."},
	"timestamp_too_old": {"the signature is too old",
		"Check the clock of this machine. If it is right, the provider or a proxy sent the delivery late: let the provider send it again."},
	"timestamp_too_new": {"the signature is from the future",
		"Correct the clock of this machine, and then let the provider send the deliveries again."},
	"untrusted_certificate": {"the certificate does not belong to the provider",
		"Do nothing if you do not expect deliveries. Otherwise ask the provider for its certificate."},
	"too_large": {"the delivery is too large", sendAgain + " Raise the limit of the source before."},
	"content_encoding": {"the content is compressed",
		"Turn off compression in the proxy in front of pawl. " + sendAgain},
	"slow_body":       {"the content arrived too slowly", sendAgain},
	"unreadable_body": {"the connection broke", sendAgain},
	"unknown_source": {"no source has this address",
		"Compare the address in the provider's dashboard with the addresses on the page Sources."},
	"method_not_allowed": {"it was not a POST request",
		"Do nothing if a person opened the address in a browser. Otherwise let the provider send POST requests."},
	"no_handshake": {"it was not a valid check of the address",
		"Start the check of the address again in the provider's dashboard."},
	"address_not_allowed": {"the sender's address is not allowed",
		"Compare the sender's address with allow_from of the source. If the provider has a new address, add it, and let the provider send the deliveries again."},
}
