package execution

import (
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
)

// CallStacks returns the stacks of the running tasks, {key: [text, …]}: those of the wanted keys, or all if wanted is
// nil.
func (p *Pool) CallStacks(wanted map[task.Key]bool) msgpack.Map {
	marks := map[task.Key]string{}
	p.w.Do(func() {
		for k, r := range p.executing {
			if wanted == nil || wanted[k] {
				marks[k] = fmt.Sprintf("(*Run).call(0x%x", pointer(r))
			}
		}
	})
	stacks := allStacks()
	out := msgpack.Map{}
	for k, mark := range marks {
		lines := []any{}
		for _, s := range stacks {
			if strings.Contains(s, mark) {
				lines = append(lines, s)
			}
		}
		out = append(out, msgpack.Pair{Key: k.Value(), Value: lines})
	}
	return out
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

// pointer returns the address of a run, which appears in the stack of its goroutine.
func pointer(r *Run) uintptr { return uintptr(unsafe.Pointer(r)) }
