package state

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/task/taskid"
)

var update = flag.Bool("update", false, "write the results of the traces into testdata")

// TestTraces replays testdata/*.trace: lines with an event, then lines that start with > for
// the actions that follow, and = for the tasks that are left. -update writes them.
//
//	config threads=2 res=R:1 message=100
//	compute x prio=1 run=7 deps=a@h1:1|h2:1#100,b@h1:1 res=R:1 spec=s actor
//	free x a · remove x · acquire a@h1:1#5 · steal x · cancel-compute x · refresh a@h2:1
//	ok x 10 · fail x boom · reschedule x · secede x
//	got h1:1 a#100 b · busy h1:1 · netfail h1:1 · badfail h1:1 unreadable
//	scatter x#5 · retry h1:1 · peer-gone h1:1 · pause · unpause · find-missing · lost · reattach
//	data-lost x · resources R:2 · show
func TestTraces(t *testing.T) {
	files, err := filepath.Glob("testdata/*.trace")
	if err != nil || len(files) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".trace"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := runTrace(t, string(raw))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(raw) {
				t.Errorf("the trace is now:\n%s\nif that is right: "+
					"go test ./internal/engine/worker/state -run TestTraces -update", diff(string(raw), got))
			}
		})
	}
}

// diff marks the first line that differs.
func diff(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range g {
		if i >= len(w) || w[i] != g[i] {
			wanted := "(nothing)"
			if i < len(w) {
				wanted = w[i]
			}
			return fmt.Sprintf("line %d: want %q\nin\n%s\n<<< here\n%s", i+1, wanted, strings.Join(g[:i+1], "\n"),
				strings.Join(g[i+1:], "\n"))
		}
	}
	return got + "\n(more lines expected)"
}

func runTrace(t *testing.T, text string) string { return traceState(t, text, func(*State) {}) }

// traceState calls made with the new state.
func traceState(t *testing.T, text string, made func(*State)) string {
	var b strings.Builder
	cfg := Config{Address: "tcp://h0:1", Validate: true}
	var s *State
	var out Actions
	now := time.Unix(0, 0)
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if strings.HasPrefix(line, ">") || strings.HasPrefix(line, "=") {
			continue
		}
		b.WriteString(line + "\n")
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		if words[0] == "config" {
			traceConfig(t, &cfg, words[1:])
			continue
		}
		if s == nil {
			s = New(cfg)
			made(s)
		}
		if words[0] == "show" {
			s.Tasks(func(k *Task) bool { b.WriteString("= " + traceTask(k) + "\n"); return true })
			continue
		}
		now = now.Add(time.Second)
		s.Apply(now, traceEvent(t, words), &out)
		for _, a := range out.List() {
			b.WriteString("> " + traceAction(a) + "\n")
		}
	}
	return b.String()
}

func traceConfig(t *testing.T, cfg *Config, words []string) {
	for _, w := range words {
		name, v, _ := strings.Cut(w, "=")
		switch name {
		case "threads":
			cfg.Threads = number(t, v)
		case "res":
			cfg.Resources = traceResources(t, v)
		case "message":
			cfg.MessageBytes = int64(number(t, v))
		case "device-message":
			cfg.DeviceMessageBytes = int64(number(t, v))
		case "incoming":
			cfg.IncomingBytes = int64(number(t, v))
		case "count":
			cfg.IncomingCount, cfg.IncomingThrottle = number(t, v), 1
		case "announce":
			cfg.AnnounceReleases = true
		default:
			t.Fatalf("config %q", w)
		}
	}
}

func number(t *testing.T, v string) int {
	t.Helper()
	n, err := strconv.Atoi(v)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func traceResources(t *testing.T, v string) (out []Resource) {
	for part := range strings.SplitSeq(v, ",") {
		name, amount, _ := strings.Cut(part, ":")
		f, err := strconv.ParseFloat(amount, 64)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, Resource{name, f})
	}
	return out
}

// traceDeps reads a@h1:1|h2:1#100,b.
func traceDeps(t *testing.T, v string) (out []Dep) {
	for part := range strings.SplitSeq(v, ",") {
		d := Dep{NBytes: -1}
		rest, size, ok := strings.Cut(part, "#")
		if ok {
			d.NBytes = int64(number(t, size))
		}
		key, holders, ok := strings.Cut(rest, "@")
		d.Key = taskid.NewKey(key)
		if ok {
			for h := range strings.SplitSeq(holders, "|") {
				d.WhoHas = append(d.WhoHas, "tcp://"+h)
			}
		}
		out = append(out, d)
	}
	return out
}

func traceStored(t *testing.T, words []string) (out []Stored) {
	for _, w := range words {
		key, size, ok := strings.Cut(w, "#")
		d := Stored{Key: taskid.NewKey(key), NBytes: 1}
		if ok {
			d.NBytes = int64(number(t, size))
		}
		out = append(out, d)
	}
	return out
}

func traceEvent(t *testing.T, words []string) Event {
	t.Helper()
	args := words[1:]
	stimulus := words[0] + "-" + strings.Join(args, "-")
	first := func() string {
		if len(args) == 0 {
			t.Fatalf("%v: what?", words)
		}
		return args[0]
	}
	key := func() taskid.Key { return taskid.NewKey(first()) }
	peer := func() string { return "tcp://" + first() }
	keys := func() (out []taskid.Key) {
		for _, a := range args {
			out = append(out, taskid.NewKey(a))
		}
		return out
	}
	switch words[0] {
	case "compute":
		return traceCompute(t, key(), args[1:], stimulus)
	case "free":
		return &FreeKeys{stimulus, keys()}
	case "remove":
		return &RemoveReplicas{stimulus, keys()}
	case "acquire":
		return &AcquireReplicas{stimulus, traceDeps(t, first())}
	case "refresh":
		return &RefreshWhoHas{stimulus, traceDeps(t, first())}
	case "steal":
		return &StealRequest{stimulus, key()}
	case "cancel-compute":
		return &CancelCompute{stimulus, key()}
	case "peer-gone":
		return &RemovePeer{stimulus, peer()}
	case "lost":
		return &SchedulerLost{stimulus}
	case "reattach":
		return &Reattach{stimulus}
	case "pause":
		return &Pause{stimulus}
	case "unpause":
		return &Unpause{stimulus}
	case "resources":
		return &SetResources{stimulus, traceResources(t, first())}
	case "scatter":
		return &UpdateData{Stimulus: stimulus, Data: traceStored(t, args)}
	case "pass":
		return &UpdateData{Stimulus: stimulus, Data: traceStored(t, args), Passed: true}
	case "data-lost":
		return &DataLost{stimulus, key()}
	case "find-missing":
		return &FindMissing{stimulus}
	case "retry":
		return &RetryBusy{stimulus, peer()}
	case "ok":
		return &ExecuteSuccess{Stimulus: stimulus, Stored: traceStored(t, args)[0], Start: 1, Stop: 2}
	case "fail":
		return &ExecuteFailure{Stimulus: stimulus, Key: key(), Failure: &Failure{ExceptionText: args[1]}}
	case "reschedule":
		return &Reschedule{stimulus, key()}
	case "secede":
		return &Secede{stimulus, key(), time.Second}
	case "got":
		return &GatherSuccess{Stimulus: stimulus, Peer: peer(), Data: traceStored(t, args[1:])}
	case "got-device":
		return &GatherSuccess{Stimulus: stimulus, Peer: peer(), Data: traceStored(t, args[1:]), Device: true}
	case "busy":
		return &GatherBusy{stimulus, peer()}
	case "netfail":
		return &GatherNetworkFailure{stimulus, peer()}
	case "badfail":
		return &GatherFailure{stimulus, peer(), &Failure{ExceptionText: args[1]}}
	}
	t.Fatalf("unknown event %q", words[0])
	return nil
}

func traceCompute(t *testing.T, key taskid.Key, args []string, stimulus string) *ComputeTask {
	ev := &ComputeTask{Stimulus: stimulus, Key: key, RunID: 1, Spec: []byte("spec of " + key)}
	for _, a := range args {
		name, v, _ := strings.Cut(a, "=")
		switch name {
		case "prio":
			ev.Priority[2] = float64(number(t, v))
		case "run":
			ev.RunID = int64(number(t, v))
		case "deps":
			ev.Deps = traceDeps(t, v)
		case "res":
			ev.Resources = traceResources(t, v)
		case "spec":
			ev.Spec = []byte(v)
		case "actor":
			ev.Actor = true
		default:
			t.Fatalf("compute %q", a)
		}
	}
	return ev
}

func traceKeys(tasks []*Task) string {
	var names []string
	for _, k := range tasks {
		names = append(names, k.Key().String())
	}
	return strings.Join(names, " ")
}

func traceAction(a Action) string {
	name := a.Kind.String()
	switch a.Kind {
	case DoGather:
		return fmt.Sprintf("%s %s: %s (%d bytes)", name, strings.TrimPrefix(a.Peer.Address(), "tcp://"),
			traceKeys(a.Tasks), a.NBytes)
	case DoRetryBusy:
		return fmt.Sprintf("%s %s after %v", name, strings.TrimPrefix(a.Peer.Address(), "tcp://"), a.After)
	case SendAddKeys, SendRequestRefresh:
		if a.Adopt {
			name += " (adopt)"
		}
		return name + " " + traceKeys(a.Tasks)
	case SendTaskFinished:
		return fmt.Sprintf("%s %v run %d, %d bytes", name, a.Key, a.RunID, a.Task.NBytes())
	case SendTaskErred:
		return fmt.Sprintf("%s %v run %d: %v", name, a.Key, a.RunID, a.Failure)
	case SendStealResponse:
		state := "null"
		if a.HasState {
			state = a.State.String()
		}
		return fmt.Sprintf("%s %v %s (%s)", name, a.Key, state, a.Stimulus)
	case SendLongRunning:
		after := "null"
		if a.HasState {
			after = a.After.String()
		}
		return fmt.Sprintf("%s %v run %d after %s", name, a.Key, a.RunID, after)
	}
	return name + " " + a.Key.String()
}

func traceTask(k *Task) string {
	s := k.String()
	list := func(label string, n int, at func(int) string) {
		if n == 0 {
			return
		}
		var names []string
		for i := range n {
			names = append(names, at(i))
		}
		slices.Sort(names)
		s += ", " + label + " " + strings.Join(names, " ")
	}
	list("needs", k.NumDeps(), func(i int) string { return k.Dep(i).Key().String() })
	list("at", k.NumHolders(), func(i int) string { return strings.TrimPrefix(k.Holder(i).Address(), "tcp://") })
	return s
}
