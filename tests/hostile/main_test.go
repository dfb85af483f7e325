package hostile

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"go.millstream.dev"
	"go.millstream.dev/cli"
	"go.millstream.dev/internal/proc/childproc"
	"go.millstream.dev/internal/testkit/leak"
)

func TestMain(m *testing.M) {
	millstream.Main()
	cli.Serve()
	childproc.NoRaceSleep()
	if os.Getenv("MILLSTREAM_HOSTILE") == "full" {
		useNewestUCX()
	}
	code := leak.Main(m)
	if path, err := binary(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// useNewestUCX makes this process and its children load the newest release of UCX that setup has unpacked, unless
// MILLSTREAM_UCX_LIBRARY names one. Releases before 1.14 that were built with assertions abort the process when a peer
// leaves in the middle of a handshake: docs/guide/security.md says so, and the short form uses what the machine has.
func useNewestUCX() {
	if os.Getenv("MILLSTREAM_UCX_LIBRARY") != "" {
		return
	}
	libraries, _ := filepath.Glob(filepath.Join(os.Getenv("MILLSTREAM_UCX_VERSIONS"), "*", "lib", "libucp.so.0"))
	if len(libraries) > 0 {
		_ = os.Setenv("MILLSTREAM_UCX_LIBRARY", slices.Max(libraries))
	}
}

// TestHostile runs the table. MILLSTREAM_HOSTILE=full is the long form, HOSTILE selects attacks by a regular
// expression.
func TestHostile(t *testing.T) {
	full := os.Getenv("MILLSTREAM_HOSTILE") == "full"
	only, err := regexp.Compile(os.Getenv("HOSTILE"))
	if err != nil {
		t.Fatal(err)
	}
	began, ran, failed := time.Now(), 0, 0
	for _, s := range settings {
		list := selected(s, full)
		if len(list) == 0 {
			continue
		}
		t.Run(s.String(), func(t *testing.T) {
			var r *Rig
			defer func() { // while the scheduler is there
				if r != nil {
					r.close()
				}
			}()
			for _, a := range list {
				if !only.MatchString(a.name) {
					continue
				}
				if r == nil {
					r = newRig(t, s, full) // the first, or the last was broken by an attack
				}
				ran++
				if !t.Run(a.name, func(t *testing.T) { r.attack(t, a) }) {
					failed++
					r.close()
					r = nil
				}
			}
		})
	}
	t.Logf("attacks: %d run, %d failed, %d in the table, %v", ran, failed, len(attacks),
		time.Since(began).Round(time.Second))
	if ran == 0 {
		t.Errorf("no attack matches %q", only)
	}
}

// attack makes one attack and checks what is left.
func (r *Rig) attack(t *testing.T, a attack) {
	limit := 3 * time.Minute
	if r.Full {
		limit = 10 * time.Minute
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	defer r.endAttack()
	r.beginAttack()
	began := time.Now()
	if err := a.run(ctx, r); err != nil {
		t.Errorf("attack: %v", err)
	}
	took := time.Since(began)
	if err := r.check(ctx, a); err != nil {
		t.Error(err)
	}
	if t.Failed() {
		for _, p := range r.processes() {
			t.Logf("log of %s (end):\n%s", p.Name, p.log.end(6<<10))
		}
		return
	}
	t.Logf("attack %v, checks %v, memory%s", took.Round(time.Millisecond),
		(time.Since(began) - took).Round(time.Millisecond), r.grown)
}
