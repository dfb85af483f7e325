package top

import (
	"errors"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Terminal is a terminal whose keys are read one by one. Close restores it.
type Terminal struct {
	in, out *os.File
	before  unix.Termios

	mu     sync.Mutex
	active bool // guarded by mu
}

// IsTerminal reports whether a reader or writer is a terminal.
func IsTerminal(v any) (*os.File, bool) {
	f, ok := v.(*os.File)
	if !ok || f == nil {
		return nil, false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return f, err == nil
}

// OpenTerminal starts to read keys from in and to draw on out. Signals of Ctrl-C and Ctrl-Z stay on.
func OpenTerminal(in, out *os.File) (*Terminal, error) {
	before, err := unix.IoctlGetTermios(int(in.Fd()), unix.TCGETS)
	if err != nil {
		return nil, os.NewSyscallError("tcgetattr", err)
	}
	t := &Terminal{in: in, out: out, before: *before}
	return t, t.Resume()
}

// Resume takes the terminal after Suspend.
func (t *Terminal) Resume() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.active {
		return nil
	}
	raw := t.before
	raw.Lflag &^= unix.ICANON | unix.ECHO
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(int(t.in.Fd()), unix.TCSETS, &raw); err != nil {
		return os.NewSyscallError("tcsetattr", err)
	}
	t.active = true
	_, err := t.out.WriteString("\x1b[?25l\x1b[2J\x1b[H") // hide the cursor, clear
	return err
}

// Suspend restores the terminal: the cursor is below the last view, keys are echoed.
func (t *Terminal) Suspend() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.active {
		return
	}
	t.active = false
	_, _ = t.out.WriteString("\x1b[?25h\n")
	_ = unix.IoctlSetTermios(int(t.in.Fd()), unix.TCSETS, &t.before)
}

// Close restores the terminal. It may be called twice.
func (t *Terminal) Close() { t.Suspend() }

// Size returns the size of the terminal; 80 by 24 if it is unknown, as in some serial consoles.
func (t *Terminal) Size() (width, height int) {
	w, err := unix.IoctlGetWinsize(int(t.out.Fd()), unix.TIOCGWINSZ)
	if err != nil || w.Col == 0 || w.Row == 0 {
		return 80, 24
	}
	return int(w.Col), int(w.Row)
}

// Width returns the width of a terminal.
func Width(f *os.File) int {
	w, _ := (&Terminal{out: f}).Size()
	return w
}

// Draw replaces the view. Each line is cleared after its text, so that nothing flickers. The cursor stays in the last
// line: no line ends with a newline that would scroll.
func (t *Terminal) Draw(lines []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.active {
		return
	}
	var b strings.Builder
	b.WriteString("\x1b[H")
	for i, l := range lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(l)
		b.WriteString("\x1b[K")
	}
	b.WriteString("\x1b[J")
	_, _ = t.out.WriteString(b.String())
}

// Keys reads keys into a channel until stop is closed or the terminal is gone, which closes the channel. Arrow and page
// keys are k, j, K and J.
func (t *Terminal) Keys(stop <-chan struct{}) <-chan rune {
	keys := make(chan rune, 16)
	go func() {
		defer close(keys)
		buf := make([]byte, 64)
		for {
			select {
			case <-stop:
				return
			default:
			}
			fds := []unix.PollFd{{Fd: int32(t.in.Fd()), Events: unix.POLLIN}}
			n, err := unix.Poll(fds, 100)
			if n == 0 || errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil || fds[0].Revents&unix.POLLIN == 0 {
				return
			}
			n, err = unix.Read(int(t.in.Fd()), buf)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil || n == 0 {
				return
			}
			for _, k := range decode(buf[:n]) {
				select {
				case keys <- k:
				case <-stop:
					return
				}
			}
		}
	}()
	return keys
}

// decode returns the keys in what a terminal has sent. Unknown sequences are ignored.
func decode(b []byte) (keys []rune) {
	special := map[string]rune{"[A": 'k', "[B": 'j', "OA": 'k', "OB": 'j', "[5~": 'K', "[6~": 'J'}
	for i := 0; i < len(b); i++ {
		if b[i] != 0x1b {
			if b[i] >= ' ' && b[i] < 0x7f {
				keys = append(keys, rune(b[i]))
			}
			continue
		}
		end := i + 1
		if end < len(b) && (b[end] == '[' || b[end] == 'O') {
			for end++; end < len(b) && (b[end] < 0x40 || b[end] > 0x7e); end++ {
			}
		}
		if k, ok := special[string(b[i+1:min(end+1, len(b))])]; ok {
			keys = append(keys, k)
		}
		i = end
	}
	return keys
}
