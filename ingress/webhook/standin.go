package webhook

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// placeholderWords are the words of placeholders such as "your-webhook-secret-here". No word consists only of
// hexadecimal digits.
var placeholderWords = strings.Fields(`admin an and api app bar baz change changeit client
	copy default demo dev dummy enter example fake fill fixme foo from get go goes here hidden hook hooks hush in insert
	is it key keys letmein live local me my new nil none not null of or pass passphrase passwd password paste pawl
	placeholder please prod production provider put pwd qwerty random real redacted replace sample secret secrets set
	shared sign signature signing some string stripe super tbd test testing the this to todo token top unknown
	undefined unset use value very webhook webhooks whsec with xyz you your`)

// A secret that contains one of placeholderPhrases is a placeholder, even if it also contains other text.
var placeholderPhrases = []string{"changeme", "replaceme", "replacewith", "placeholder", "yoursecret", "yourwebhook",
	"yoursigning", "yourtoken", "yourapikey", "yourkey", "supersecret", "mysecret", "secrethere", "goeshere",
	"insertyour", "pasteyour", "dummysecret", "notasecret"}

var (
	// secretPrefix is the constant part that some providers put before the random part.
	secretPrefix = regexp.MustCompile(`^[a-zA-Z]{1,6}[_-](?:(?:live|test)[_-])?`)
	// variable matches a variable reference that was not replaced by its value, for example ${SECRET}.
	variable = regexp.MustCompile(`\$\{|\{\{|^\$[A-Za-z_]+$|^%[A-Za-z_]+%$|^<.*>$|^\[.*\]$|^<`)
	// note matches a reminder in place of the secret, such as "TODO: secret".
	note = regexp.MustCompile(`^(?i:todo|fixme|tbd)[^a-zA-Z0-9]`)
)

// CheckStandIn rejects a placeholder of any length, because an attacker can guess it. Placeholders are: variable
// references, secrets with an omitted part, notes, words of documentation, repeated texts, and digits in order. A
// random secret of [MinSecret] bytes is rejected with a probability below one in ten million.
func CheckStandIn(secret []byte) error {
	if problem := placeholderReason(string(secret)); problem != "" {
		return errors.New(problem + "; replace it by the secret of the provider")
	}
	return nil
}

// placeholderReason returns the reason why a secret is a placeholder. It returns "" for any other secret.
func placeholderReason(secret string) string {
	random := secretPrefix.ReplaceAllString(secret, "")
	letters := lettersOf(secret)
	switch {
	case random == "":
		return "it is a prefix without a secret"
	case !printable(secret): // a decoded key, which may contain three dots by chance
	case variable.MatchString(random), variable.MatchString(secret):
		return "it is a variable that was not replaced"
	case note.MatchString(random), note.MatchString(secret):
		return "it is a note, not a secret"
	case strings.Contains(secret, "..."), strings.Contains(secret, "…"), strings.Contains(secret, "***"):
		return "a part of it is left out"
	}
	for _, phrase := range placeholderPhrases {
		if strings.Contains(letters, phrase) {
			return fmt.Sprintf("it contains %q and is a placeholder", phrase)
		}
	}
	switch period := periodOf(secret); {
	case wordy(random) && spells(letters, placeholderWords):
		return "it contains only words of documentation and is a placeholder"
	case mostlyOne(secret), mostlyOne(random):
		return "it is mostly one repeated character, not a secret"
	case period > 0 && period <= 8:
		return fmt.Sprintf("it is %d bytes repeated %d times, not a secret", period, len(secret)/period)
	case digitsInOrder(random):
		return "it is digits in order, not a secret"
	}
	return ""
}

func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// lettersOf returns the letters of text in lower case.
func lettersOf(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, strings.ToLower(text))
}

// wordy reports whether at least half of text is letters, and text does not end with digits in order. With fewer
// letters, a random secret could contain only listed words.
func wordy(text string) bool {
	if text == "" {
		return true
	}
	core := strings.TrimRight(text, "0123456789")
	if !digitsInOrder(text[len(core):]) {
		core = text
	}
	return 2*len(lettersOf(core)) >= len(core)
}

// spells reports whether text is a concatenation of some of the words.
func spells(text string, words []string) bool {
	reached := make([]bool, len(text)+1)
	reached[0] = true
	for at := range text {
		for _, word := range words {
			if reached[at] && strings.HasPrefix(text[at:], word) {
				reached[at+len(word)] = true
			}
		}
	}
	return reached[len(text)]
}

// mostlyOne reports whether more than half of the bytes of text are the same.
func mostlyOne(text string) bool {
	for i := range len(text) {
		if 2*strings.Count(text, text[i:i+1]) > len(text) {
			return true
		}
	}
	return false
}

// periodOf returns the length of the shortest prefix that text consists of, repeated. It returns 0 if text repeats no
// prefix. It searches for text in text+text: if text repeats a prefix, it occurs there before the second copy begins.
func periodOf(text string) int {
	if len(text) < 3 {
		return 0
	}
	twice := []byte(text[1:] + text[:len(text)-1])
	period := bytes.Index(twice, []byte(text)) + 1
	if period == len(text) {
		return 0
	}
	return period
}

// digitsInOrder reports whether text consists of digits in order, such as 1234567890123.
func digitsInOrder(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' || i > 0 && (text[i]-'0') != (text[i-1]-'0'+1)%10 {
			return false
		}
	}
	return true
}

// CheckEd25519 rejects a public key of low order, such as all zeros, because anybody can forge signatures for it. There
// are about ten such keys. CheckEd25519 tries a forged signature that consists of the neutral point of the curve and
// the number 0. Under a key of low order, this signature is valid for at least one message in eight; under any other
// key, it is always invalid.
func CheckEd25519(key ed25519.PublicKey) error {
	neutral := make([]byte, ed25519.SignatureSize)
	neutral[0] = 1
	for message := range 256 {
		if ed25519.Verify(key, []byte{byte(message)}, neutral) {
			return errors.New("anybody can sign for this public key; copy the provider's key")
		}
	}
	return nil
}
