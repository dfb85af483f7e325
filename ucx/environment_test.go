package ucx

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func init() {
	roles["first-use"] = firstUse
	roles["transports"] = reportTransports
}

// mapped tells whether a library is in this process.
func mapped(name string) (bool, error) {
	b, err := os.ReadFile("/proc/self/maps")
	return strings.Contains(string(b), "/"+name), err
}

// firstUse looks at what is loaded before and after the first use, and changes the
// environment until then.
func firstUse(c *control) error {
	early, err := mapped("libuc")
	if err != nil {
		return err
	}
	good, set := os.LookupEnv("MILLSTREAM_UCX_LIBRARY")
	os.Setenv("MILLSTREAM_UCX_LIBRARY", "/nonexistent/libucp.so.0")
	missing := Available()
	if os.Setenv("MILLSTREAM_UCX_LIBRARY", good); !set {
		os.Unsetenv("MILLSTREAM_UCX_LIBRARY")
	}
	os.Setenv("UCX_TLS", "tcp,self")
	os.Setenv("UCX_KEEPALIVE_INTERVAL", "17s")
	x, err := NewContext(Config{})
	if err != nil {
		return err
	}
	defer x.Close()
	late, err := mapped("libucp")
	if err != nil {
		return err
	}
	tls, _ := optionOf(x, "UCX_TLS")
	keepalive, _ := optionOf(x, "UCX_KEEPALIVE_INTERVAL")
	c.say("early %t", early)
	c.say("missing %v", missing)
	c.say("late %t", late)
	c.say("settings %s %s", tls, keepalive)
	return nil
}

// A program that imports the package and does not use it has no UCX in it, and what is
// set before the first use counts.
func TestNothingBeforeFirstUse(t *testing.T) {
	h := startHelper(t, "first-use")
	if got := h.hear("early"); got[0] != "false" {
		t.Error("UCX is loaded before it is used")
	}
	if got := strings.Join(h.hear("missing"), " "); !strings.Contains(got, "/nonexistent/libucp.so.0") {
		t.Errorf("MILLSTREAM_UCX_LIBRARY was read before the first use: %s", got)
	}
	if got := h.hear("late"); got[0] != "true" {
		t.Error("libucp is not seen when it is used: this test sees nothing")
	}
	if got := h.hear("settings"); got[0] != "tcp,self" || !strings.HasPrefix(got[1], "17") {
		t.Errorf("settings from before the first use: %q", got)
	}
	h.quit()
}

// reportTransports connects two workers of this process in peer error mode and says what they use.
func reportTransports(c *control) error {
	ctx, cancel := roleContext()
	defer cancel()
	wa, doneA, err := roleWorker(Config{})
	if err != nil {
		return err
	}
	defer doneA()
	wb, doneB, err := roleWorker(Config{})
	if err != nil {
		return err
	}
	defer doneB()
	l, err := wb.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	accepted := make(chan error, 1)
	go func() {
		_, err := l.Accept(ctx)
		accepted <- err
	}()
	ep, err := wa.Dial(ctx, l.Addr().String())
	if err != nil {
		return err
	}
	if err := <-accepted; err != nil {
		return err
	}
	transports, err := ep.Transports()
	if err != nil {
		return err
	}
	line := "transports"
	for _, transport := range transports {
		line += " " + transport.Name
	}
	c.say("%s", line)
	return nil
}

// Millstream's defaults give way to what the user has set.
func TestUserSettingsStay(t *testing.T) {
	shared := []string{"posix", "sysv"}
	lib, err := Library()
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name      string
		env       []string
		want, not []string // one of want is among the transports, none of not
	}{
		{"default", nil, shared, []string{"tcp"}},
		{"no error handling", []string{"UCX_POSIX_ERROR_HANDLING=n", "UCX_SYSV_ERROR_HANDLING=n"}, []string{"tcp"},
			shared},
		{"transports", []string{"UCX_TLS=tcp,self"}, []string{"tcp"}, append([]string{"cma"}, shared...)},
		{"one copy", []string{"UCX_CMA_MEMORY_INVALIDATE=n"}, shared, []string{"cma", "tcp"}},
	}
	if lib.AtLeast(1, 17) { // each transport by its own name
		cases = append(cases, struct {
			name      string
			env       []string
			want, not []string
		}{"only sysv", []string{"UCX_POSIX_ERROR_HANDLING=n"}, []string{"sysv"}, []string{"posix", "tcp"}})
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := startHelper(t, "transports", c.env...)
			transports := h.hear("transports")
			in := func(tl string) bool { return slices.Contains(transports, tl) }
			if !slices.ContainsFunc(c.want, in) || slices.ContainsFunc(c.not, in) {
				t.Errorf("with %q the transports are %q; want one of %q, none of %q", c.env, transports, c.want, c.not)
			}
			h.quit()
		})
	}
}

// Contexts with tcp send segments of 64 KiB, unless the user set the size of sent or received ones, and no release of
// UCX warns about it.
func TestTCPSegments(t *testing.T) {
	for _, c := range []struct {
		name string
		env  []string
		want bool
	}{
		{"default", nil, true},
		{"only tcp", []string{"UCX_TLS=tcp,self"}, true},
		{"no tcp", []string{"UCX_TLS=self,sm"}, false},
		{"sent", []string{"UCX_TCP_TX_SEG_SIZE=16k"}, false},
		{"received", []string{"UCX_TCP_RX_SEG_SIZE=32k"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			h := startHelper(t, "transports", append(c.env, "UCX_LOG_LEVEL=debug", "UCX_LOG_FILE="+path)...)
			h.hear("transports")
			h.quit()
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			log := string(b)
			if !strings.Contains(log, "DEBUG") {
				t.Fatalf("got no debug lines in the log of UCX, want some: %q", log)
			}
			if got := strings.Contains(log, "TX_SEG_SIZE=64k"); got != c.want {
				t.Errorf("with %q segments of 64 KiB are set: got %t, want %t", c.env, got, c.want)
			}
			for line := range strings.Lines(log) {
				if strings.Contains(line, "UCX  WARN") && strings.Contains(line, "SEG_SIZE") {
					t.Errorf("got a warning, want none: %s", line)
				}
			}
		})
	}
}

// The variables themselves are left alone, all but the one that guards Go's signals.
func TestEnvironmentUnchanged(t *testing.T) {
	const name, value = "UCX_RNDV_THRESH", "12345"
	t.Setenv(name, value)
	before := fmt.Sprint(os.Environ())
	c := openContext(t, Config{Options: map[string]string{"RNDV_THRESH": "777"}})
	if got, _ := optionOf(c, name); !strings.Contains(got, value) { // 1.21 says intra:…,inter:…
		t.Errorf("%s=%s in the context, the user set %s", name, got, value)
	}
	if after := fmt.Sprint(os.Environ()); after != before {
		t.Errorf("the environment was changed from\n%s\nto\n%s", before, after)
	}
}
