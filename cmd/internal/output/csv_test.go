package output

import (
	"bytes"
	"errors"
	"testing"
	"time"
)

// A formula from outside is text in a spreadsheet, and a negative amount is a number.
func TestCSV(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 10, 1, 14, 0, 0, 0, time.FixedZone("CEST", 7200))
	var out bytes.Buffer
	file := NewCSV(&out)
	pages := []Table{{
		{"DATE", "WHAT", "AMOUNT", "ENTRIES"},
		{at, `=HYPERLINK("http://evil")`, Money{"-49.00", "USD"}, -3},
		{&at, "+1", Money{}, 0},
	}, {
		{"DATE", "WHAT", "AMOUNT", "ENTRIES"},
		{(*time.Time)(nil), "-x, \"quoted\"", nil},
		{nil, "@cmd", Money{"1", "=JPY"}, int64(7)},
		{nil, Link{To: Event, ID: "=evt"}, Money{}, "\tx"},
		{nil, "  =1+1", Money{}, "a-b"},
	}}
	for _, page := range pages {
		if err := file.Page(page); err != nil {
			t.Fatal(err)
		}
	}
	want := `date (UTC),what,amount,amount currency,entries
2026-10-01 12:00:00,"'=HYPERLINK(""http://evil"")",-49.00,USD,-3
2026-10-01 12:00:00,'+1,,,0
,"'-x, ""quoted""",,,
,'@cmd,1,'=JPY,7
,'=evt,,,\u0009x
,'  =1+1,,,a-b
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	if err := NewCSV(broken{}).Page(pages[0]); err == nil {
		t.Error("an error of the writer is lost")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }
