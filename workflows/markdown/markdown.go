// Package markdown escapes text for the Temporal UI, which renders summaries and details as Markdown.
package markdown

import (
	"strings"
	"unicode/utf8"

	"github.com/pawlhq/pawl/activities/letters"
)

// longest is the maximum length of a text in bytes, about three lines of a box in the Temporal UI. The receipt holds
// the full text.
const longest = 300

// markup escapes characters with a meaning in Markdown.
var markup = strings.NewReplacer("\r", "", "\n", " ", "`", "'", `\`, `\\`, "*", `\*`, "[", `\[`, "<", `\<`, "|", `\|`)

// Text escapes text for Markdown and limits its length. Reasons contain input of people and outside systems. It removes
// characters that hide or reverse the text beside them.
func Text(text string) string {
	if len(text) > longest {
		end := longest
		for !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end] + "…"
	}
	return letters.Line(markup.Replace(text))
}
