package console

import (
	"html/template"
	"regexp"
	"strings"
)

var (
	// longWord is a word that is too wide for a column. A page may break it after one of its marks.
	longWord = regexp.MustCompile(`[^\s]{16,}|[^\s]+…[^\s]+`)
	marks    = strings.NewReplacer(".", ".<wbr>", "_", "_<wbr>", ":", ":<wbr>", "@", "@<wbr>", "/", "/<wbr>")
	// number is an amount or a time, which stays in one line.
	number = regexp.MustCompile(`^[-+(]?\d[\d.,:]*\)?$`)
	// providerID is an ID of a provider, such as "evt_1Qb…". Only its beginning and its end are shown.
	providerID = regexp.MustCompile(`\b[a-z]{2,6}_[0-9A-Za-z]{15,}\b`)
)

// breaks returns a text for a page in which a browser may break long words after their marks, and nowhere else.
func breaks(text string) template.HTML {
	if !longWord.MatchString(text) {
		return template.HTML(template.HTMLEscapeString(text)) //nolint:gosec // escaped
	}
	var b strings.Builder
	from := 0
	for _, at := range longWord.FindAllStringIndex(text, -1) {
		b.WriteString(template.HTMLEscapeString(text[from:at[0]]))
		from = at[1]
		word := text[at[0]:at[1]]
		if number.MatchString(word) {
			b.WriteString(template.HTMLEscapeString(word))
			continue
		}
		if strings.Contains(word, "…") { // a shortened ID stays in one line
			b.WriteString(`<span class="word">` + template.HTMLEscapeString(word) + `</span>`)
			continue
		}
		for i, part := range strings.SplitAfter(marks.Replace(word), "<wbr>") {
			if i > 0 {
				b.WriteString("<wbr>")
			}
			b.WriteString(template.HTMLEscapeString(strings.TrimSuffix(part, "<wbr>")))
		}
	}
	b.WriteString(template.HTMLEscapeString(text[from:]))
	return template.HTML(b.String()) //nolint:gosec // escaped
}

// brief shortens the IDs of providers in a text in the middle.
func brief(text string) string {
	return providerID.ReplaceAllStringFunc(text, func(id string) string {
		const begin, end = 10, 6
		return id[:begin] + "…" + id[len(id)-end:]
	})
}
