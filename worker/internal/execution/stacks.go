package execution

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
)

// CallStacks returns the stacks of the running Go tasks, {key: [line, …]} in the form of Dask, and the keys of the
// tasks that run in the sidecar: those of the wanted keys, or all if wanted is nil.
func (p *Pool) CallStacks(wanted map[task.Key]bool) (stacks msgpack.Map, python []task.Key) {
	type mark struct {
		text string
		c    *runContext
	}
	marks := map[task.Key]mark{}
	p.w.Do(func() {
		for k, r := range p.executing {
			switch {
			case wanted != nil && !wanted[k]:
			case r.inSidecar.Load():
				python = append(python, k)
			default:
				marks[k] = mark{fmt.Sprintf("(*Run).call(0x%x", pointer(r)), r.c}
			}
		}
	})
	stacks = msgpack.Map{}
	if len(marks) == 0 {
		return stacks, python
	}
	goroutines := allStacks()
	p.w.Do(func() { // the memory of a run that has ended since may be that of another one
		for k, m := range marks {
			if m.c.run() == nil {
				delete(marks, k)
			}
		}
	})
	for k, m := range marks {
		i := slices.IndexFunc(goroutines, func(s string) bool { return strings.Contains(s, m.text) })
		if i < 0 {
			continue // waits for a thread, or has ended
		}
		stacks = append(stacks, msgpack.Pair{Key: k.Value(), Value: stackLines(goroutines[i])})
	}
	return stacks, python
}

// maxStacks bounds the size of the stacks of all goroutines, in bytes.
const maxStacks = 16 << 20

func allStacks() []string {
	for size := 1 << 16; ; size *= 4 {
		b := make([]byte, size)
		if n := runtime.Stack(b, true); n < size || size >= maxStacks {
			return strings.Split(string(b[:n]), "\n\n")
		}
	}
}

// stackLines returns the stack of a goroutine in the form of Dask's call_stack: a text for each frame, outermost first.
// In Go's form the frames are pairs of lines, "function(arguments)" and "\tfile:line +0x1d", innermost first.
func stackLines(text string) []any {
	out := []any{}
	function := ""
	for line := range strings.SplitSeq(text, "\n") {
		place, indented := strings.CutPrefix(line, "\t")
		switch {
		case strings.HasPrefix(line, "created by "):
			function = ""
		case !indented:
			function = ""
			if end := strings.LastIndexByte(line, '('); end > 0 && !strings.HasPrefix(line, "goroutine ") {
				function = line[strings.LastIndexByte(line[:end], '/')+1 : end]
			}
		case function != "":
			place, _, _ = strings.Cut(place, " ")
			file, number := place, 0
			if colon := strings.LastIndexByte(place, ':'); colon >= 0 {
				file = place[:colon]
				number, _ = strconv.Atoi(place[colon+1:])
			}
			out = append(out, fmt.Sprintf("  File \"%s\", line %d, in %s\n\t", file, number, function))
			function = ""
		}
	}
	slices.Reverse(out)
	return out
}

// pointer returns the address of a run, which appears in the stack of its goroutine.
func pointer(r *Run) uintptr { return uintptr(unsafe.Pointer(r)) }
