package flow

import (
	"strings"
	"testing"
)

// The reason names what the slower worker lacks; package doctor tests all of them.
func TestFaster(t *testing.T) {
	a := Member{Name: "a", Address: "tls://10.0.0.1:1", Boot: "x", IPC: "i", PID: "p",
		DataAddresses: []string{"ucxx://a"}}
	b := a
	b.Name = "b"
	slow := b
	slow.DataAddresses = nil
	for _, c := range []struct {
		f           Flow
		level, text string
	}{
		{Flow{From: a, To: b, Scheme: "inproc"}, OK, ""},
		{Flow{From: a, To: b, Scheme: "ucxx", Transports: []string{"cma"}}, OK, ""},
		{Flow{From: a, To: slow, Scheme: "tls"}, Warn, "b was started without data connections"},
		{Flow{From: a, To: Member{Name: "c", Silent: "no answer"}, Scheme: "tcp"}, Info, "c did not describe"},
	} {
		level, why, fix := c.f.Faster()
		if level != c.level || !strings.Contains(why, c.text) || (fix == "") != (c.text == "") {
			t.Errorf("%s to %s over %s: got %s, %q, %q, want %s, %q", c.f.From.Name, c.f.To.Name, c.f.Scheme, level,
				why, fix, c.level, c.text)
		}
	}
}
