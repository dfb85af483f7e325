package benchpeer

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func shell(script string) Starter {
	return func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, "sh", "-c", script) }
}

func TestLines(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p,
		err := StartLines(ctx,
		shell(`while read l; do echo noise; echo "{\"got\":\"$V\",\"error\":\"$(echo $l | grep -o broken)\"}"; done`),
		[]string{"V=7"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	var a struct{ Got string }
	if err := p.Ask(ctx, map[string]string{"do": "it"}, &a); err != nil || a.Got != "7" {
		t.Errorf("%+v, %v", a, err)
	}
	if err := p.Ask(ctx, map[string]string{"do": "broken"}, &a); err == nil || err.Error() != "broken" {
		t.Errorf("error of the command: got %v", err)
	}
	p.Stop()
	p.Stop()
	if p.Err != nil {
		t.Errorf("a process whose input ended: %v", p.Err)
	}
}

// The error contains the last output of a process that exits.
func TestLinesThatDie(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, err := StartLines(ctx, shell(`read l; echo one >&2; echo two >&2; exit 3`), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	if err := p.Ask(ctx, 1, &struct{}{}); err == nil || !strings.Contains(err.Error(), "two") {
		t.Errorf("%v", err)
	}
}
