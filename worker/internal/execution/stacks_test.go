package execution

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/internal/proc/profile"
	"go.millstream.dev/internal/task"
)

func TestCallStacks(t *testing.T) {
	r := newRig(t, Config{Threads: 2})
	a, b := gateOf(t.Name()+"-a"), gateOf(t.Name()+"-b")
	r.compute("a", spec(t, deaf, val(t.Name()+"-a")), nil)
	r.compute("b", spec(t, deaf, val(t.Name()+"-b")), nil)
	<-a.entered
	<-b.entered
	if got, python := r.CallStacks(nil); len(got) != 2 || len(python) != 0 {
		t.Errorf("got %d tasks and %v in Python, want 2 and none", len(got), python)
	}
	got, _ := r.CallStacks(map[task.Key]bool{task.NewKey("a"): true})
	lines, _ := got.Get("a")
	list, _ := lines.([]any)
	user := slices.IndexFunc(list, func(v any) bool { return strings.Contains(v.(string), "execution.init.") })
	outer := slices.IndexFunc(list, func(v any) bool {
		return strings.Contains(v.(string),
			"in execution.(*Run).call")
	})
	if len(got) != 1 || outer < 0 || user <= outer {
		t.Errorf("got %q, want the function of the task after that of the worker", list)
	}
	close(a.open)
	close(b.open)
	r.next()
	r.next()
	if got, _ := r.CallStacks(nil); len(got) != 0 {
		t.Errorf("got %v, want no stacks without a task", got)
	}
}

func TestStackLines(t *testing.T) {
	got := stackLines("goroutine 7 [running, 3 minutes]:\nruntime.gopark(0x1, {0x2, 0x3}, ...)\n" +
		"\t/go/src/runtime/proc.go:402 " +
		"+0xce\ngo.millstream.dev/x.(*T[...]).f(0xc00001?)\n\tgo.millstream.dev/x/f.go:12 +0x1\n" +
		"...additional frames elided...\nmain.g(...)\n\tC:/g.go:9\ncreated by main.main in goroutine 1\n\tmain.go:1 +0x1\n")
	want := []any{"  File \"C:/g.go\", line 9, in main.g\n\t",
		"  File \"go.millstream.dev/x/f.go\", line 12, in x.(*T[...]).f\n\t",
		"  File \"/go/src/runtime/proc.go\", line 402, in runtime.gopark\n\t"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := stackLines("nothing\n\tof a stack"); len(got) != 0 {
		t.Errorf("got %q, want none", got)
	}
}

// The profile has the functions of running tasks by the prefix of their keys, without the frames of the worker.
func TestProfile(t *testing.T) {
	r := newRig(t, Config{Threads: 2, Profile: profile.Config{Interval: time.Millisecond,
		Cycle: 20 * time.Millisecond}})
	g := gateOf(t.Name())
	r.compute("deaf-123", spec(t, deaf, val(t.Name())), nil)
	<-g.entered // all samples are of the function
	ended := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() { r.Profile().Run(ended) })
	defer all.Wait()
	defer close(ended)
	deafPrefix, other := "deaf", "other"
	count := func(key *string) (int64, *profile.View) {
		var tree profile.Tree
		r.Profile().AddTo(&tree, profile.Query{Key: key})
		return tree.Count(), tree.View()
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if n, v := count(&deafPrefix); n > 0 {
			if len(v.Children) == 0 || strings.Contains(v.Children[0].Name, "(*Run)") {
				t.Errorf("got the functions %v, want no function of the worker", v.Children)
			}
			break
		}
		if time.Now().After(end) {
			t.Fatal("timeout: no sample of the task")
		}
	}
	if n, _ := count(&other); n != 0 {
		t.Errorf("another prefix: got %d samples, want none", n)
	}
	close(g.open)
	r.next()
}
