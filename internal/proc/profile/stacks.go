package profile

import (
	"slices"
	"strings"
)

const module = "go.millstream.dev/"

// callMark is the function of a worker that runs a task: the goroutine with it is that of the task, others with its
// labels were started by it.
const callMark = module + "worker/internal/execution.(*Run).call"

// sidecarMark is the function that waits for a task in the Python process, where its stack is sampled.
const sidecarMark = module + "worker/internal/execution.(*Run).callPython"

// taskStack returns the part of a stack that belongs to the function of a task, outermost first; nil if there is none.
// stack is innermost first.
func taskStack(stack []*Frame) []*Frame {
	if len(stack) == 0 || is(stack, sidecarMark) {
		return nil
	}
	if !is(stack, callMark) {
		if len(stack) < maxStack && isParked(stack) {
			return nil // started by a task, and waits
		}
		return outermost(trimLeaf(stack), func(f *Frame) bool { return f.Text == "runtime.goexit" })
	}
	return outermost(trimLeaf(stack), isOfWorker)
}

// maxStack is the number of frames in the runtime's profile of goroutines: the outermost ones of longer stacks are
// missing.
const maxStack = 128

// ownStack returns the stack of a goroutine that is not of a task, outermost first; nil if the goroutine waits, or is
// that of a Recorder.
func ownStack(stack []*Frame) []*Frame {
	if len(stack) == 0 || isParked(stack) || slices.ContainsFunc(stack, func(f *Frame) bool {
		return strings.HasPrefix(f.Text, module+"internal/proc/profile.(*Recorder)")
	}) {
		return nil
	}
	return outermost(trimLeaf(stack), func(f *Frame) bool { return f.Text == "runtime.goexit" })
}

func is(stack []*Frame, function string) bool {
	return slices.ContainsFunc(stack, func(f *Frame) bool { return f.Text == function })
}

// isParked reports whether a goroutine waits, as Dask's profile of a server omits the wait of its event loop.
func isParked(stack []*Frame) bool {
	switch stack[0].Text {
	case "runtime.gopark", "runtime.notetsleepg", "runtime.goparkunlock":
		return true
	}
	return false
}

// trimLeaf removes the innermost frames that are the same for all goroutines that wait, or were preempted.
func trimLeaf(stack []*Frame) []*Frame {
	for len(stack) > 1 && (stack[0].Text == "runtime.gopark" || strings.HasPrefix(stack[0].Text,
		"runtime.asyncPreempt")) {
		stack = stack[1:]
	}
	return stack
}

// outermost returns the frames of a stack, outermost first, without those at the start that drop selects; at least one.
func outermost(stack []*Frame, drop func(*Frame) bool) []*Frame {
	n := len(stack)
	for n > 1 && drop(stack[n-1]) {
		n--
	}
	out := slices.Clone(stack[:n])
	slices.Reverse(out)
	return out
}

// isOfWorker reports whether a frame is between the start of a goroutine and the function of its task.
func isOfWorker(f *Frame) bool {
	switch packageOf(f.Text) {
	case "runtime", "reflect", "sync", module + "worker", module + "worker/internal/execution", module +
		"internal/task",
		"go%2emillstream%2edev":
		return true
	}
	return false
}

// packageOf returns the import path of a function as it is in the symbol table, where dots of the last element are %2e.
func packageOf(function string) string {
	slash := strings.LastIndexByte(function, '/') + 1
	dot := strings.IndexByte(function[slash:], '.')
	if dot < 0 {
		return ""
	}
	return function[:slash+dot]
}
