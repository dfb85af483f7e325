package profile

import (
	"bytes"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Labels of goroutines that run tasks. The goroutines that they start inherit them, and profiles of package
// runtime/pprof contain them.
const (
	ownerLabel = "millstream.worker" // the Recorder
	taskLabel  = "millstream.task"   // the prefix of the key
)

// record is a stack that count goroutines have.
type record struct {
	stack       []uintptr // innermost first
	count       int
	owner, task string // labels, "" for none
}

// readLabeled returns the stacks of all goroutines with their labels. Only the text form of the profile has both.
func readLabeled() []record {
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		return nil // a Buffer does not fail
	}
	return parseGoroutines(b.Bytes())
}

// parseGoroutines parses the text form of the goroutine profile: "3 @ 0x1 0x2", and "# labels: {…}" in the next line.
func parseGoroutines(text []byte) []record {
	var out []record
	for len(text) > 0 {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte("\n"))
		if len(line) == 0 {
			continue
		}
		if rest, ok := bytes.CutPrefix(line, []byte("# labels: ")); ok && len(out) > 0 {
			last := &out[len(out)-1]
			last.owner, last.task = labelIn(rest, ownerLabel), labelIn(rest, taskLabel)
			continue
		}
		if line[0] < '0' || line[0] > '9' {
			continue // a frame as text
		}
		head, rest, ok := strings.Cut(string(line), " @")
		n, err := strconv.Atoi(head)
		if !ok || err != nil {
			continue
		}
		r := record{count: n}
		for f := range strings.FieldsSeq(rest) {
			pc, err := strconv.ParseUint(f, 0, 64)
			if err != nil {
				break
			}
			r.stack = append(r.stack, uintptr(pc))
		}
		out = append(out, r)
	}
	return out
}

// labelIn returns the value of a label in the text of all labels: {"name":"value", "other":"value"}.
func labelIn(text []byte, name string) string {
	_, rest, ok := strings.Cut(string(text), strconv.Quote(name)+":")
	if !ok {
		return ""
	}
	quoted, err := strconv.QuotedPrefix(rest)
	if err != nil {
		return ""
	}
	v, err := strconv.Unquote(quoted)
	if err != nil {
		return ""
	}
	return v
}

// readPlain returns the stacks of all goroutines without labels, their innermost 32 frames: it takes a quarter of the
// time.
func readPlain() []record {
	for room := runtime.NumGoroutine() + 16; ; room *= 2 {
		list := make([]runtime.StackRecord, room)
		n, ok := runtime.GoroutineProfile(list)
		if !ok {
			continue
		}
		out := make([]record, n)
		for i := range out {
			out[i] = record{stack: list[i].Stack(), count: 1}
		}
		return out
	}
}

// costFactor bounds the processor time of samples: a sample is followed by a pause of this many times its own time, so
// that all samples of the process take at most 0.5 % of a processor. Each also stops the goroutines of the process for
// some microseconds, which is not measured.
const costFactor = 200

// snapshots are the stacks that all recorders of the process share.
var snapshots struct {
	sync.Mutex
	number  uint64
	labeled bool
	records []record
	next    time.Time // no further snapshot is taken before
}

// mayRunTask reports whether a stack without labels may be that of a task: it has the function that runs tasks, or its
// outermost frames are missing.
func mayRunTask(r record) bool {
	return len(r.stack) >= len(runtime.StackRecord{}.Stack0) ||
		slices.ContainsFunc(framesOf(r.stack), func(f *Frame) bool { return f.call })
}

// snapshot returns the stacks of all goroutines; with labels, which take more time, only if one of them may run a task.
// The last snapshot is returned again while it is too early for the
// next. The caller does not change the result.
func snapshot(labeled bool) (records []record, number uint64) {
	s := &snapshots
	s.Lock()
	defer s.Unlock()
	if time.Now().Before(s.next) && s.number > 0 && (s.labeled || !labeled) {
		return s.records, s.number
	}
	runtime.LockOSThread()
	begin := processorTime()
	s.records = readPlain()
	if labeled && slices.ContainsFunc(s.records, mayRunTask) {
		s.records = readLabeled()
	}
	took := processorTime() - begin
	runtime.UnlockOSThread()
	s.labeled = labeled
	s.number++
	s.next = time.Now().Add(costFactor * max(0, took))
	return s.records, s.number
}

// processorTime returns the processor time of the thread. The time on the clock would count the time in which other
// threads have the processor.
func processorTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// frames caches the functions at program counters.
var frames struct {
	sync.Mutex
	at map[uintptr]*Frame
}

const maxFrames = 1 << 16

// framesOf returns the functions of a stack, innermost first.
func framesOf(stack []uintptr) []*Frame {
	frames.Lock()
	defer frames.Unlock()
	if frames.at == nil || len(frames.at) > maxFrames {
		frames.at = map[uintptr]*Frame{}
	}
	out := make([]*Frame, len(stack))
	for i, pc := range stack {
		f := frames.at[pc]
		if f == nil {
			f = frameAt(pc)
			frames.at[pc] = f
		}
		out[i] = f
	}
	return out
}

func frameAt(pc uintptr) *Frame {
	f, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	if f.Function == "" {
		return &Frame{ID: "unknown;;0", Name: "unknown"}
	}
	first := 0 // unknown for inlined functions
	if f.Func != nil {
		_, first = f.Func.FileLine(f.Func.Entry())
	}
	return &Frame{call: f.Function == callMark, ID: f.Function + ";" + f.File + ";" + strconv.Itoa(first),
		Text: f.Function, File: f.File,
		Line: f.Line,
		Name: f.Function[strings.LastIndexByte(f.Function, '/')+1:]}
}
