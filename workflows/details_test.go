package workflows

import (
	"regexp"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/workflows/markdown"
)

// Text from other systems is plain text in Temporal's Markdown. It creates no link, no markup and no new line.
func TestProse_WhatComesFromOutside_IsText(t *testing.T) {
	t.Parallel()
	live := regexp.MustCompile("(?:^|[^\\\\])(?:\\\\\\\\)*[*\\[<|`\\n]")
	due := EventInput{Due: &DueInput{Account: schematest.Planted}}
	due.Type = schematest.Planted
	event := EventInput{}
	event.Type, event.ObjectID = schematest.Planted, "\\"+schematest.Planted
	for _, text := range []string{markdown.Text(schematest.Planted), markdown.Text(`\[x](javascript:1)`), markdown.Text(`\\<b>`), markdown.Text("a\n# b\r\n```"), due.Summary(), event.Summary()} {
		if found := live.FindString(text); found != "" {
			t.Errorf("%q has %q", text, found)
		}
		if at := strings.IndexAny(text, schematest.HiddenIn); at >= 0 {
			t.Errorf("%q has a hidden character", text)
		}
	}
}
