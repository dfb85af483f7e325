package cmdline

import (
	"os/exec"
	"testing"
)

func TestQuote(t *testing.T) {
	for _, word := range []string{"", "plain", "--case=a,b", "/tmp/a.json", "a b", "it's", `"$HOME"`, "*", "a|b&c;d",
		"~", "(x)", "line\nbreak", "µs", `back\slash`} {
		got, err := exec.Command("sh", "-c", "printf %s "+Quote(word)).Output()
		if err != nil || string(got) != word {
			t.Errorf("%q quoted as %s: the shell reads %q, %v", word, Quote(word), got, err)
		}
	}
	if got := Quote("tls://127.0.0.1:8786"); got != "tls://127.0.0.1:8786" {
		t.Errorf("a word that needs no quotes: got %s", got)
	}
}
