package top

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"go.millstream.dev/internal/testkit/leak"
)

// openPTY returns both ends of a terminal of a size.
func openPTY(t *testing.T, width, height uint16) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	name, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: height, Col: width}); err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprint("/dev/pts/", name), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	master = os.NewFile(uintptr(fd), "/dev/ptmx")
	t.Cleanup(func() { _, _ = master.Close(), slave.Close() })
	return master, slave
}

// screen reads what is drawn. Texts that were read with an earlier one are kept.
type screen struct {
	master *os.File
	rest   string
	all    strings.Builder // what was read
}

// await reads until there is a text, and no further in what was drawn.
func (s *screen) await(t *testing.T, want string) {
	t.Helper()
	buf := make([]byte, 4096)
	for {
		if _, after, ok := strings.Cut(s.rest, want); ok {
			s.rest = after
			return
		}
		n, err := s.master.Read(buf)
		if err != nil {
			t.Fatalf("%v; got %q, want %q", err, s.rest, want)
		}
		s.all.Write(buf[:n])
		s.rest = s.rest[max(0, len(s.rest)-len(want)):] + string(buf[:n])
	}
}

func settings(t *testing.T, f *os.File) unix.Termios {
	t.Helper()
	s, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *s
}

// Keys sort and quit, new snapshots replace the view, and the terminal is as before afterwards.
func TestRun(t *testing.T) {
	leak.Check(t)
	master, slave := openPTY(t, 120, 30)
	before := settings(t, slave)
	term, err := OpenTerminal(slave, slave)
	if err != nil {
		t.Fatal(err)
	}
	if now := settings(t, slave); now.Lflag&(unix.ICANON|unix.ECHO) != 0 || now.Lflag&unix.ISIG == 0 {
		t.Errorf("flags: got %#x, want neither ICANON nor ECHO, but ISIG", now.Lflag)
	}
	n := 0
	fetch := func(_ context.Context, last *Snapshot) (*Snapshot, error) {
		if n++; n == 2 {
			return nil, errors.New("connection refused")
		}
		return New(start, identity(min(2+n, 5), 5), nil, last), nil
	}
	done := make(chan error, 1)
	go func() {
		done <- Run(t.Context(), term, pair(2), fetch, View{Sort: 'n', Interval: time.Millisecond})
	}()
	s := &screen{master: master}
	s.await(t, "workers    2 with 8 threads")
	s.await(t, "no reply: connection refused")
	s.await(t, "workers    5 with 20 threads")
	_, _ = master.WriteString("m")
	s.await(t, "*MEMORY")
	_, _ = master.WriteString("p")
	s.await(t, "paused; p continues")
	_, _ = master.WriteString("q")
	// A visible cursor in a new line. Views must be read until then: Run blocks if the buffer of the terminal is full.
	s.await(t, "\x1b[?25h\r\n")
	if err := <-done; err != nil {
		t.Errorf("q: got %v, want no error", err)
	}
	if after := settings(t, slave); after != before {
		t.Errorf("settings of the terminal: got %+v, want %+v", after, before)
	}
	if out := s.all.String(); strings.Contains(out, "?1049") {
		t.Errorf("got %q, want no other screen", out)
	}
}

// A panic leaves a terminal that works.
func TestPanic(t *testing.T) {
	leak.Check(t)
	_, slave := openPTY(t, 80, 24)
	before := settings(t, slave)
	term, err := OpenTerminal(slave, slave)
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		_ = Run(t.Context(), term, nil, nil, View{Interval: time.Hour}) // draws a nil snapshot
	}()
	if after := settings(t, slave); after != before {
		t.Errorf("settings of the terminal: got %+v, want %+v", after, before)
	}
}

// The end of the context is an error, the end of the terminal is not; a terminal without a size has the usual one.
func TestRunEnds(t *testing.T) {
	leak.Check(t)
	_, slave := openPTY(t, 0, 0)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("interrupted")
	cancel(cause)
	term, err := OpenTerminal(slave, slave)
	if err != nil {
		t.Fatal(err)
	}
	if w, h := term.Size(); w != 80 || h != 24 {
		t.Errorf("size: got %d by %d, want 80 by 24", w, h)
	}
	if err := Run(ctx, term, pair(1), nil, View{Interval: time.Hour}); !errors.Is(err, cause) {
		t.Errorf("canceled: got %v, want %v", err, cause)
	}
	master, slave := openPTY(t, 80, 24)
	if term, err = OpenTerminal(slave, slave); err != nil {
		t.Fatal(err)
	}
	if err := master.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), term, pair(1), nil, View{Interval: time.Hour}); err != nil {
		t.Errorf("terminal gone: got %v, want no error", err)
	}
	if _, ok := IsTerminal(os.NewFile(^uintptr(0), "none")); ok {
		t.Error("a file that is not open is a terminal")
	}
}
