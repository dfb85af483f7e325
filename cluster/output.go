package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxLine bounds a line of output in bytes; a longer one is split.
const maxLine = 16 << 10

// maxHistory is how many lines of output of its predecessors a new process receives, for get_logs.
const maxHistory = 200

// drainTime is how long output is read after the end of a process whose children keep its descriptors open.
const drainTime = 250 * time.Millisecond

// outputLine is a line of output of a worker process. It is sent back to the process, or to its successor, for
// get_logs.
type outputLine struct {
	Time   time.Time `json:"time"`
	Stream string    `json:"stream"` // stdout or stderr
	Text   string    `json:"text"`
}

// output reads the output of one process, line by line.
type output struct {
	n       *Nanny
	echo    chan outputLine
	readers sync.WaitGroup
	files   []*os.File // read ends

	mu   sync.Mutex // owns last
	last string     // line of standard error: a panic, or the last one that is not empty
}

// newOutput returns the write ends of pipes for the standard output and error of a process. The caller closes them when
// the process has been started.
func (n *Nanny) newOutput() (o *output, stdout, stderr *os.File, err error) {
	o = &output{n: n, echo: make(chan outputLine, 1024)}
	outR, stdout, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	errR, stderr, err := os.Pipe()
	if err != nil {
		_, _ = outR.Close(), stdout.Close()
		return nil, nil, nil, err
	}
	o.files = []*os.File{outR, errR}
	o.readers.Go(func() { o.read(outR, "stdout", n.cfg.Stdout) })
	o.readers.Go(func() { o.read(errR, "stderr", n.cfg.Stderr) })
	return o, stdout, stderr, nil
}

// read forwards lines until the pipe is closed.
func (o *output) read(r *os.File, stream string, to io.Writer) {
	defer r.Close()
	var line []byte
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		line = append(line, buf[:n]...)
		for {
			i := bytes.IndexByte(line, '\n')
			switch {
			case i >= 0 && i <= maxLine:
				o.line(stream, line[:i], to)
				line = line[i+1:]
				continue
			case len(line) > maxLine:
				o.line(stream, line[:maxLine], to)
				line = line[maxLine:]
				continue
			}
			break
		}
		if err != nil { // the end of the output, or drainTime after that of the process
			if len(line) > 0 {
				o.line(stream, line, to)
			}
			return
		}
	}
}

// line prints one line and stores it for get_logs.
func (o *output) line(stream string, text []byte, to io.Writer) {
	l := outputLine{time.Now(), stream, strings.ToValidUTF8(string(bytes.TrimSuffix(text, []byte{'\r'})), "?")}
	o.n.print(to, text)
	o.n.keepLine(l)
	select {
	case o.echo <- l:
	default: // the process does not read: get_logs misses the line
	}
	if stream == "stderr" && strings.TrimSpace(l.Text) != "" {
		o.mu.Lock()
		defer o.mu.Unlock()
		if !isPanic(o.last) {
			o.last = l.Text
		}
	}
}

// isPanic reports whether a line is the first that the Go runtime prints when it ends the process.
func isPanic(line string) bool {
	return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")
}

// end waits for the last output of the process, and returns the line that best describes its end.
func (o *output) end() string {
	for _, f := range o.files {
		_ = f.SetReadDeadline(time.Now().Add(drainTime))
	}
	o.readers.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	const limit = 300
	if len(o.last) > limit {
		return strings.ToValidUTF8(o.last[:limit], "") + "…"
	}
	return o.last
}

// print writes a line of a process with the name of its worker, in one write.
func (n *Nanny) print(to io.Writer, line []byte) {
	var b []byte
	if !n.cfg.RawOutput {
		b = fmt.Appendf(b, "worker %s: ", n.label())
	}
	b = append(append(b, line...), '\n')
	n.printing.Lock()
	defer n.printing.Unlock()
	_, _ = to.Write(b)
}

// label returns the name of the worker for logs: its name, otherwise its address or process ID.
func (n *Nanny) label() string {
	i := n.Info()
	switch {
	case i.Name != "":
		return i.Name
	case i.Address != "":
		return i.Address
	}
	return fmt.Sprintf("pid %d", i.PID)
}

func (n *Nanny) keepLine(l outputLine) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.history) == maxHistory {
		n.history = append(n.history[:0], n.history[1:]...)
	}
	n.history = append(n.history, l)
}

// outputHistory returns the stored lines.
func (n *Nanny) outputHistory() []outputLine {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.history)
}

// sendEcho sends the output of a process, preceded by that of its predecessors, to the process. It ends when the pipe
// is closed, or with ctx.
func (o *output) sendEcho(ctx context.Context, w io.Writer, history []outputLine) {
	enc := json.NewEncoder(w)
	for _, l := range history {
		if enc.Encode(l) != nil {
			return
		}
	}
	for {
		select {
		case l := <-o.echo:
			if enc.Encode(l) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// logRecord is a record of package slog that a worker process sends to its nanny.
type logRecord struct {
	Time  time.Time  `json:"time"`
	Level slog.Level `json:"level"`
	Text  string     `json:"text"`
	Attrs []logAttr  `json:"attrs,omitempty"`
}

type logAttr struct {
	Key   string `json:"k"`
	Value any    `json:"v"`
}

// UnmarshalJSON decodes an attribute, with integers as int64 instead of float64.
func (a *logAttr) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	type plain logAttr
	if err := d.Decode((*plain)(a)); err != nil {
		return err
	}
	if n, ok := a.Value.(json.Number); ok {
		if i, err := n.Int64(); err == nil {
			a.Value = i
		} else {
			a.Value = n.String()
		}
	}
	return nil
}

// log passes on a record of the process. Its attributes are strings, numbers and booleans.
func (n *Nanny) log(r *logRecord) {
	ctx := context.Background()
	h := n.cfg.WorkerLogger.Handler()
	if !h.Enabled(ctx, r.Level) {
		return
	}
	out := slog.NewRecord(r.Time, r.Level, r.Text, 0)
	out.AddAttrs(slog.String("worker", n.label()))
	for _, a := range r.Attrs {
		out.AddAttrs(slog.Any(a.Key, a.Value))
	}
	_ = h.Handle(ctx, out)
}

// lockedWriter is a writer for several goroutines.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// SharedWriter returns a writer for the output of several nannies: NannyConfig.Stdout and Stderr.
func SharedWriter(w io.Writer) io.Writer {
	switch w := w.(type) {
	case nil:
		return nil
	case *os.File, *lockedWriter:
		return w // already safe
	}
	return &lockedWriter{w: w}
}
