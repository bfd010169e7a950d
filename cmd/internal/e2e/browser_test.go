package e2e_test

import (
	"context"
	_ "embed"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// axe finds violations of accessibility rules: https://www.npmjs.com/package/axe-core.
//
//go:embed testdata/axe.min.js
var axe string

// browser is a Chromium that collects the errors of its pages.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu     sync.Mutex
	faults []string

	// clicks and fields count the user's actions since began.
	clicks, fields int
	began          time.Time
}

// newBrowser starts the installed Chromium, or skips the test.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		t.Skip("there is no Chromium: install chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(time.Minute))
	allocated, stop := chromedp.NewExecAllocator(t.Context(), options...)
	ctx, leave := chromedp.NewContext(allocated)
	t.Cleanup(func() { leave(); stop() })
	b := &browser{t: t, ctx: ctx}
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	if err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			b.fault("exception: " + e.ExceptionDetails.Text)
		case *cdplog.EventEntryAdded:
			// Some steps request pages with status 403 or 404.
			if e.Entry.Level == "error" && !strings.Contains(e.Entry.Text, "status of 4") {
				b.fault(string(e.Entry.Source) + ": " + e.Entry.Text)
			}
		case *runtime.EventConsoleAPICalled:
			if e.Type == "error" {
				b.fault(fmt.Sprintf("console.error: %v", e.Args))
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *browser) fault(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(b.faults, text)
}

// noFaults fails the test if the browser has reported errors since the last call.
func (b *browser) noFaults(where string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.faults {
		b.t.Errorf("%s: %s", where, f)
	}
	b.faults = nil
}

// begin starts a sequence of actions at a page, and told ends it: told logs the number of actions and the duration.
func (b *browser) begin(url string) {
	b.t.Helper()
	b.clicks, b.fields, b.began = 0, 0, time.Now()
	b.look(url, "light", 1440)
}

func (b *browser) told(story string) {
	b.t.Helper()
	b.t.Logf("| %-55s | %d clicks, %d fields | %4.1f s |", story, b.clicks, b.fields, time.Since(b.began).Seconds())
}

// do runs steps with a timeout for a slow machine.
func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	b.try(chromedp.Steps(steps...))
}

func (b *browser) try(step chromedp.Action[chromedp.Void]) { b.t.Helper(); get(b, step) }

// get runs one step and returns its value.
func get[T any](b *browser, step chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	value, err := chromedp.Run(ctx, step)
	if err != nil {
		last, stop := context.WithTimeout(b.ctx, 5*time.Second)
		defer stop()
		at, _ := chromedp.Run(last, chromedp.Location())
		text, _ := chromedp.Run(last, chromedp.Text(chromedp.CSS("body")))
		b.t.Fatalf("%v\nat %s:\n%s", err, at, text)
	}
	return value
}

// shows waits until the main part of the page contains all words.
func (b *browser) shows(words ...string) {
	b.t.Helper()
	await(b.t, 2*time.Minute, func() error {
		ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
		defer cancel()
		text, err := chromedp.Run(ctx, chromedp.Text(chromedp.CSS("main")))
		if err != nil { // the browser is loading another page
			return err
		}
		for _, w := range words {
			if !strings.Contains(text, w) {
				return fmt.Errorf("the page does not show %q:\n%s", w, text)
			}
		}
		return nil
	})
}

// click clicks the link or button with this text.
func (b *browser) click(text string) {
	b.t.Helper()
	b.press(fmt.Sprintf(`//main//*[self::a or self::button or self::summary][normalize-space()=%q]`, text))
}

// press clicks the element of an XPath.
func (b *browser) press(path string) {
	b.t.Helper()
	b.clicks++
	b.do(chromedp.Click(path, chromedp.NodeVisible))
}

// find searches with the field at the top of the page.
func (b *browser) find(text string) {
	b.t.Helper()
	b.fields++
	b.do(chromedp.SendKeys(chromedp.CSS("#q"), text+kb.Enter))
}

// arrives waits until the browser's URL contains the words.
func (b *browser) arrives(words ...string) (at string) {
	b.t.Helper()
	await(b.t, time.Minute, func() error {
		at = get(b, chromedp.Location())
		for _, w := range words {
			if !strings.Contains(at, w) {
				return fmt.Errorf("at %s, which has no %q", at, w)
			}
		}
		return nil
	})
	return at
}

// fill fills a field of the form.
func (b *browser) fill(name, value string) {
	b.t.Helper()
	b.fields++
	b.do(chromedp.SetValue(chromedp.CSS(fmt.Sprintf(`main [name=%q]`, name)), value))
}

// look opens a page with a size and a color scheme.
func (b *browser) look(url, scheme string, width int64) {
	b.t.Helper()
	b.shape(scheme, width)
	b.do(chromedp.Navigate(url))
}

// shape sets the size and color scheme of the page.
func (b *browser) shape(scheme string, width int64) {
	b.t.Helper()
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}}}
	b.do(chromedp.EmulateViewport(width, 900), func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, media)
		return chromedp.Void{}, err
	})
}

// sound fails the test if the page scrolls horizontally, or if axe finds a violation.
func (b *browser) sound(where string) {
	b.t.Helper()
	wide := get(b, chromedp.Evaluate[struct {
		Scroll, Window float64
		Widest         string
	}](`(() => {
		const d = document.documentElement, out = [...document.querySelectorAll("main *")]
			.filter((e) => e.getBoundingClientRect().right > d.clientWidth + 1).map((e) => e.outerHTML.slice(0, 150));
		return {Scroll: d.scrollWidth, Window: d.clientWidth, Widest: out[0] ?? ""};
	})()`))
	if wide.Scroll > wide.Window {
		b.t.Errorf("%s is %v wide in a window of %v: %s", where, wide.Scroll, wide.Window, wide.Widest)
	}
	if !get(b, chromedp.Evaluate[bool](`"axe" in window`)) {
		b.do(chromedp.Evaluate[chromedp.Void](axe + `;0`))
	}
	violations := get(b, chromedp.Evaluate[[]struct {
		ID, Help string
		At       []string
	}](`axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]})
		.then((r) => r.violations.map((v) => ({ID: v.id, Help: v.help,
		At: v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160) + " " + n.any.map((a) => a.message).join("; "))})))`,
		chromedp.EvalAwaitPromise))
	for _, v := range violations {
		b.t.Errorf("%s: %s: %s\n%s", where, v.ID, v.Help, strings.Join(v.At, "\n"))
	}
}

// picture returns a screenshot.
func (b *browser) picture() []byte { b.t.Helper(); return get(b, chromedp.CaptureScreenshot()) }
