package ucxmux

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/ucx"
)

func invitation() Invitation {
	return Invitation{Version: invitationVersion,
		Contact: ucx.Contact{Address: ucx.WorkerAddress("not a real address")},
		Secret:  newSecret(), Process: self(), Host: "here"}
}

func TestCardsInFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "invitation")
	want := invitation()
	if err := want.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := ReadInvitation(path)
	if err != nil || string(got.Contact.Address) != string(want.Contact.Address) || got.Secret != want.Secret ||
		got.Process != want.Process {
		t.Fatalf("read back %+v, %v", got, err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("others can read it: %v, %v", st.Mode(), err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("%d files", len(entries))
	}
	if err := want.Write(filepath.Join(path, "below a file")); err == nil {
		t.Error("it was written into a file")
	}
	for name, text := range map[string]string{
		"empty": "", "not JSON": "ucx1:abc", "another version": `{"millstream-ucx":2}`,
		"no address":        `{"millstream-ucx":1}`,
		"a damaged address": `{"millstream-ucx":1,"contact":{"address":"ucx1:AAAA"}}`,
		"endless":           strings.Repeat(" ", maxInvitation+1),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadInvitation(path); err == nil {
			t.Errorf("%s: it is an invitation", name)
		}
	}
	for _, secret := range []string{"", "00", strings.Repeat("x", 32), strings.Repeat("0", 34)} {
		if _, err := (&Invitation{Secret: secret}).secret(); err == nil {
			t.Errorf("the secret %q is one", secret)
		}
	}
}

func FuzzParseCard(f *testing.F) {
	c := invitation()
	path := filepath.Join(f.TempDir(), "invitation")
	if err := c.Write(path); err != nil {
		f.Fatal(err)
	}
	text, _ := os.ReadFile(path)
	f.Add(text)
	f.Add([]byte(`{"millstream-ucx":1,"contact":{"address":"ucx1:AAAAAAAAAAA"},"process":{"pid":-1}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ParseInvitation(text)
		if err != nil {
			return
		}
		if len(c.Contact.Address) == 0 || c.Version != invitationVersion {
			t.Errorf("%q is the invitation %+v", text, c)
		}
		_, _ = c.secret()
		_, _ = c.mark(), c.Listening()
	})
}

// sleeper is a process that waits to be killed.
func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), sleeperVariable+"=1", "GORACE=atexit_sleep_ms=0")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _, _ = in.Close(), cmd.Process.Kill(), cmd.Wait() })
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// The end of a process is told once, to who asks and to who waits; a number that another process has now is not it.
func TestProcesses(t *testing.T) {
	cmd := sleeper(t)
	p := Process{Space: self().Space, PID: cmd.Process.Pid}
	var err error
	if p.Start, err = startOf(p.PID); err != nil {
		t.Fatal(err)
	}
	if err := p.alive(); err != nil {
		t.Fatal(err)
	}
	another := p
	another.Start++
	if err := another.alive(); !errors.Is(err, errGone) {
		t.Errorf("the number of another process: %v", err)
	}
	stranger := p
	stranger.Space = "another machine"
	if err := stranger.alive(); err != nil {
		t.Errorf("a process that cannot be seen: %v", err)
	}
	folder := t.TempDir()
	c := invitation()
	c.Process = p
	dead, alive, other := filepath.Join(folder, NewName()), filepath.Join(folder, NewName()),
		filepath.Join(folder, namePrefix+"something else")
	mine := invitation()
	if err := errors.Join(c.Write(dead), mine.Write(alive), os.WriteFile(other, []byte("of value"),
		0o600)); err != nil {
		t.Fatal(err)
	}
	Sweep(folder)
	if entries, _ := os.ReadDir(folder); len(entries) != 3 {
		t.Errorf("of three files %d are left while all live", len(entries))
	}

	gone, left := make(chan struct{}), make(chan struct{})
	p.whenGone(t.Context(), func() { close(gone) })
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	p.whenGone(ended, func() { close(left) })
	_ = cmd.Process.Kill() // nobody waits for it yet: a zombie is gone, too
	select {
	case <-gone:
	case <-time.After(time.Minute):
		t.Fatal("nobody was told")
	}
	for !errors.Is(p.alive(), errGone) {
		time.Sleep(time.Millisecond)
	}
	Sweep(folder)
	if entries, _ := os.ReadDir(folder); len(entries) != 2 {
		t.Errorf("%d files are left of a living process and of nobody", len(entries))
	}
	_ = cmd.Wait()
	if err := p.alive(); !errors.Is(err, errGone) {
		t.Errorf("when its zombie is gone: %v", err)
	}
	again := make(chan struct{})
	p.whenGone(t.Context(), func() { close(again) })
	<-again
	select {
	case <-left:
		t.Error("who does not want to know any more was told")
	default:
	}
}
