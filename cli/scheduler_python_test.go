package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.millstream.dev/config"
)

func TestHelperFlags(t *testing.T) {
	c, err := (&pythonFlags{memory: "4GiB", disk: "64MiB", unsafe: true}).config()
	if err != nil || c.Memory != 4<<30 || c.Disk != 64<<20 || !c.AllowUnsafe {
		t.Errorf("got %+v, %v", c, err)
	}
	if c, err := (&pythonFlags{memory: "0"}).config(); err != nil || c.Memory >= 0 {
		t.Errorf("--helper-memory 0: got %d, %v, want no limit", c.Memory, err)
	}
	if c, err := (&pythonFlags{}).config(); err != nil || c.Memory != 0 || c.Disk != 0 || c.AllowUnsafe {
		t.Errorf("no flags: got %+v, %v, want the defaults", c, err)
	}
	for _, f := range []pythonFlags{{memory: "much"}, {disk: "much"}, {disk: "1kB"}} {
		if _, err := f.config(); err == nil || !strings.Contains(err.Error(), "--helper-") {
			t.Errorf("%+v: got %v, want an error that names the flag", f, err)
		}
	}
}

// Python helpers do not see keys, wherever they are named, nor folders that only their owner can enter.
func TestSecretFiles(t *testing.T) {
	private, open := filepath.Join(t.TempDir(), "private"), filepath.Join(t.TempDir(), "open")
	for dir, mode := range map[string]os.FileMode{private: 0o700, open: 0o755} {
		if err := os.Mkdir(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Load(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{
		"distributed.comm.tls.scheduler.cert": filepath.Join(private, "cert.pem"),
		"distributed.comm.tls.scheduler.key":  filepath.Join(private, "key.pem"),
		"distributed.comm.tls.client.cert":    filepath.Join(open, "both.pem"),
		"distributed.comm.tls.worker.cert":    "-----BEGIN\nin place",
	}
	restore, err := c.SetFrom(config.Source{Kind: config.KindFlag, Name: "test"}, values)
	if err != nil {
		t.Fatal(err)
	}
	defer restore()
	f := &schedulerFlags{}
	f.tlsDir, f.schedulerFile = "certs", "sched.json"
	got := f.secretFiles(c)
	want := []string{"certs", "sched.json", filepath.Join(open, "both.pem"), filepath.Join(private, "key.pem"), private}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	if !isHome(home) || !isHome(filepath.Dir(home)) || isHome(filepath.Join(home, "certs")) {
		t.Errorf("the home folder and those above it are not secret as a whole, others are")
	}
}
