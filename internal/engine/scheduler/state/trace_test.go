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

var updateTraces = flag.Bool("update-traces", false,
	"write what happens into testdata/*.trace; then read the difference")

// TestTraces replays testdata/*.trace: lines of events, each followed by the expected actions, in order and indented by
// "> ". testdata/README describes the format.
func TestTraces(t *testing.T) {
	files, err := filepath.Glob("testdata/*.trace")
	if err != nil || len(files) == 0 {
		t.Fatalf("traces: got none, error %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".trace"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := replay(t, string(data))
			if *updateTraces {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want := strings.Split(string(data), "\n")
			for i, line := range strings.Split(got, "\n") {
				if i >= len(want) || line != want[i] {
					there := "the end"
					if i < len(want) {
						there = want[i]
					}
					t.Fatalf("%s:%d:\n got: %s\nwant: %s\nwhat happens:\n%s", file, i+1, line, there, got)
				}
			}
		})
	}
}

// tracer runs the lines of a trace.
type tracer struct {
	*rig
	config   Config
	requests uint64
	logs     bool
	made     func(*State)
}

// replay runs a trace and returns it with the resulting actions.
func replay(t *testing.T, text string) string { return replayOn(t, text, func(*State) {}) }

// replayOn calls made with the new state.
func replayOn(t *testing.T, text string, made func(*State)) string {
	tr := &tracer{config: Config{Validate: true}, made: made}
	var b strings.Builder
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if strings.HasPrefix(line, "> ") || strings.HasPrefix(line, "= ") {
			continue // replaced by the resulting actions
		}
		b.WriteString(line + "\n")
		words := strings.Fields(line)
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		if err := tr.line(&b, words, line); err != nil {
			t.Fatalf("line %d: %s: %v", i+1, line, err)
		}
	}
	return b.String()
}

// options takes the words with an equals sign, or those that are flags, from a line.
func options(words []string) (args []string, opt map[string]string) {
	opt = map[string]string{}
	for _, w := range words {
		if name, value, ok := strings.Cut(w, "="); ok {
			opt[name] = value
		} else if f, ok := strings.CutPrefix(w, "+"); ok {
			opt[f] = "true"
		} else {
			args = append(args, w)
		}
	}
	return args, opt
}

func (tr *tracer) line(b *strings.Builder, words []string, line string) error {
	if words[0] == "config" {
		if tr.rig != nil {
			return fmt.Errorf("config comes first")
		}
		return tr.configure(words[1:])
	}
	if tr.rig == nil {
		tr.rig = newRig(tr.config)
		tr.made(tr.State)
	}
	switch words[0] {
	case "after":
		d, err := time.ParseDuration(words[1])
		tr.now = tr.now.Add(d)
		return err
	case "logs":
		tr.logs = true
		return nil
	case "?":
		for _, name := range words[1:] {
			b.WriteString("= " + tr.describe(name) + "\n")
		}
		return nil
	}
	ev, err := tr.event(words, line)
	if err != nil {
		return err
	}
	list := tr.apply(ev)
	for i := range list {
		if a := &list[i]; a.Kind != ActionNone && (tr.logs || a.Kind != LogEvent) {
			b.WriteString("> " + formatAction(tr.State, a) + "\n")
		}
	}
	switch ev := ev.(type) {
	case *UpdateGraph:
		if ev.Err != nil {
			b.WriteString("> error " + ev.Err.Error() + "\n")
		}
	case *AddWorker:
		if ev.Err != nil {
			b.WriteString("> error " + ev.Err.Error() + "\n")
		}
	}
	return nil
}

// describe describes the state of a task or a worker.
func (tr *tracer) describe(name string) string {
	if w := tr.FindWorker(name); w != nil {
		return fmt.Sprintf("%s %s processing=%d holds=%d nbytes=%d", name, w.Status(), w.NumProcessing(),
			w.NumHeld(), w.NBytes())
	}
	t := tr.Task(taskid.NewKey(name))
	if t == nil {
		return name + " unknown"
	}
	text := fmt.Sprintf("%s %s", name, t.State())
	switch t.State() {
	case Processing:
		text += " on " + t.ProcessingOn().Name()
	case Memory:
		text += " on " + holderNames(t)
	case Waiting:
		for d := range t.WaitingOn() {
			text += " " + d.Key().String()
		}
	case Erred:
		text += fmt.Sprintf(" %q", t.Failure().ExceptionText)
	}
	return text
}

func (tr *tracer) configure(words []string) error {
	_, opt := options(words)
	for name, value := range opt {
		f, _ := strconv.ParseFloat(value, 64)
		d, _ := time.ParseDuration(value)
		switch name {
		case "saturation":
			tr.config.WorkerSaturation = f
		case "failures":
			tr.config.AllowedFailures = int(f)
		case "timeout":
			tr.config.NoWorkersTimeout = d
		case "epoch":
			tr.config.Epoch = uint32(f)
		case "unknown":
			tr.config.UnknownTaskDuration = d
		case "terminate":
			tr.config.MemoryTerminate = true
		case "nosteal":
			tr.config.NoStealing = true
		default:
			return fmt.Errorf("unknown setting %s", name)
		}
	}
	return nil
}

func (tr *tracer) worker(name string) WorkerID {
	if w := tr.FindWorker(name); w != nil {
		return w.ID()
	}
	return NoWorker
}

func (tr *tracer) workersNamed(list string) (ids []WorkerID) {
	for name := range strings.SplitSeq(list, ",") {
		if name != "" {
			ids = append(ids, tr.worker(name))
		}
	}
	return ids
}

func (tr *tracer) client(name string) ClientID {
	if name == "fire-and-forget" {
		return FireAndForget
	}
	if c := tr.ClientByName(name); c != nil {
		return c.ID()
	}
	return NoClient
}

// run returns the run ID of a report: that of the task, or the given one.
func (tr *tracer) run(key string, opt map[string]string) int64 {
	if r, ok := opt["run"]; ok {
		n, _ := strconv.ParseInt(r, 10, 64)
		return n
	}
	if t := tr.Task(taskid.NewKey(key)); t != nil {
		return t.RunID()
	}
	return 0
}

func resources(text string) (rs []Resource) {
	for part := range strings.SplitSeq(text, ",") {
		if name, amount, ok := strings.Cut(part, ":"); ok {
			f, _ := strconv.ParseFloat(amount, 64)
			rs = append(rs, Resource{name, f})
		}
	}
	return rs
}

func (tr *tracer) event(words []string, line string) (Event, error) {
	args, opt := options(words[1:])
	num := func(name string, otherwise int64) int64 {
		if v, ok := opt[name]; ok {
			n, _ := strconv.ParseInt(v, 10, 64)
			return n
		}
		return otherwise
	}
	dur := func(name string) time.Duration {
		d, _ := time.ParseDuration(opt[name])
		return d
	}
	arg := func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}
	rest := func(i int) []taskid.Key { return keysOf(args[min(i, len(args)):]...) }
	key := taskid.NewKey(arg(1))
	switch words[0] {
	case "worker":
		status := StatusRunning
		if st, ok := opt["status"]; ok {
			status, _ = ParseStatus(st)
		}
		return &AddWorker{Address: "tcp://" + arg(0) + ":1", Name: arg(0), Host: opt["host"],
			Threads: int(num("threads", 1)), MemoryLimit: num("memory", 0),
			Resources: resources(opt["resources"]), Registry: opt["registry"], Can: abilities(opt["can"]),
			Status: status, Returning: opt["returning"] != "", Token: opt["token"], Values: opt["values"] != "",
			Ahead: opt["ahead"] != ""}, nil
	case "remove":
		return &RemoveWorker{Worker: tr.worker(arg(0)), Safe: opt["safe"] != "", Close: opt["close"] != "",
			Await: dur("await"), Reason: "test"}, nil
	case "forget-departed":
		return &ForgetDeparted{Token: arg(0)}, nil
	case "status":
		st, ok := ParseStatus(arg(1))
		if !ok {
			return nil, fmt.Errorf("unknown status")
		}
		return &WorkerStatusChange{Worker: tr.worker(arg(0)), Status: st}, nil
	case "resources":
		return &SetResources{Worker: tr.worker(arg(0)), Resources: resources(arg(1))}, nil
	case "heartbeat":
		ev := &Heartbeat{Worker: tr.worker(arg(0)), Memory: num("memory", 0)}
		for _, k := range args[1:] {
			ev.Executing = append(ev.Executing, Executing{taskid.NewKey(k), dur("for")})
		}
		return ev, nil
	case "client":
		return &AddClient{Name: arg(0)}, nil
	case "leave":
		return &RemoveClient{Client: tr.client(arg(0))}, nil
	case "graph":
		return tr.graph(line)
	case "finished":
		return &TaskFinished{Worker: tr.worker(arg(0)), Key: key, RunID: tr.run(arg(1), opt), NBytes: num("nbytes",
			100), TypeName: "int", Duration: dur("took"), Value: []byte(opt["value"])}, nil
	case "erred":
		return &TaskErred{Worker: tr.worker(arg(0)), Key: key, RunID: tr.run(arg(1), opt), ExceptionText: "boom"}, nil
	case "reschedule":
		return &Reschedule{Worker: tr.worker(arg(0)), Key: key}, nil
	case "secede":
		return &LongRunning{Worker: tr.worker(arg(0)), Key: key, RunID: tr.run(arg(1), opt), Duration: dur("took")}, nil
	case "add-keys":
		return &AddKeys{Worker: tr.worker(arg(0)), Keys: rest(1), Adopt: opt["adopt"] != ""}, nil
	case "lost":
		return &ReleaseWorkerData{Worker: tr.worker(arg(0)), Key: key}, nil
	case "who-has":
		return &RequestRefreshWhoHas{Worker: tr.worker(arg(0)), Keys: rest(1)}, nil
	case "steal-response":
		return &StealResponse{Worker: tr.worker(arg(0)), Key: key, State: arg(2), Steal: uint64(num("n", 1))}, nil
	case "desires":
		return &ClientDesires{Client: tr.client(arg(0)), Keys: rest(1)}, nil
	case "releases":
		return &ClientReleases{Client: tr.client(arg(0)), Keys: rest(1)}, nil
	case "report":
		return &ReportKey{Client: tr.client(arg(0)), Key: key}, nil
	case "cancel":
		return &CancelKeys{Client: tr.client(arg(0)), Keys: rest(1), Force: opt["force"] != "", Reason: "asked to"}, nil
	case "retry":
		return &Retry{Client: tr.client(arg(0)), Keys: rest(1)}, nil
	case "data":
		return &UpdateData{Client: tr.client(arg(0)),
			Data: []NewData{{Key: key, NBytes: num("nbytes", 100), Workers: tr.workersNamed(opt["on"]),
				TypeName: "bytes"}}}, nil
	case "replicate":
		tr.requests++
		return &Replicate{Request: tr.requests, Keys: rest(0), N: int(num("n", 0)),
			Workers: tr.workersNamed(opt["on"]), Delete: opt["delete"] != ""}, nil
	case "rebalance":
		tr.requests++
		return &Rebalance{Request: tr.requests, Keys: rest(0)}, nil
	case "retire":
		tr.requests++
		return &RetireWorkers{Request: tr.requests, Workers: tr.workersNamed(arg(0)), Close: opt["close"] != "",
			Remove: opt["remove"] != ""}, nil
	case "restrict":
		var to []string
		if opt["to"] != "" {
			to = strings.Split(opt["to"], ",")
		}
		return &SetRestrictions{Keys: rest(0), Workers: to}, nil
	case "watch":
		return &Watch{Keys: rest(0), Off: opt["off"] != ""}, nil
	case "rerun":
		return &Rerun{Keys: rest(0)}, nil
	case "unqueue":
		return &Unqueue{Keys: rest(0)}, nil
	case "expect":
		return &ExpectData{Client: tr.client(arg(0)), Keys: rest(1)}, nil
	case "hold":
		return &Hold{On: arg(0) == "on"}, nil
	case "restart":
		return &Restart{}, nil
	case "tick":
		return &Tick{}, nil
	}
	return nil, fmt.Errorf("unknown event")
}

// abilities reads "python,go".
func abilities(text string) Can {
	var c Can
	for _, name := range strings.Split(text, ",") {
		c |= map[string]Can{"python": Python, "go": Go}[name]
	}
	return c
}

// graph reads "graph CLIENT options: key <- dep dep {options}; key; …".
func (tr *tracer) graph(line string) (Event, error) {
	head, body, _ := strings.Cut(line, ":")
	args, opt := options(strings.Fields(head)[1:])
	if len(args) != 1 {
		return nil, fmt.Errorf("graph needs a client")
	}
	ev := &UpdateGraph{Client: tr.client(args[0]), Graph: &Graph{Ordered: opt["unordered"] == "",
		Registry: opt["registry"]}, Actors: opt["actors"] != ""}
	ev.UserPriority, _ = strconv.ParseFloat(opt["priority"], 64)
	ev.FIFOTimeout, _ = time.ParseDuration(opt["fifo"])
	if opt["from"] != "" {
		ev.SubmittingTask = taskid.NewKey(opt["from"])
	}
	for i, part := range strings.Split(body, ";") {
		note := ""
		if before, after, ok := strings.Cut(part, "{"); ok {
			part, note = before, strings.TrimSuffix(strings.TrimSpace(after), "}")
		}
		name, deps, _ := strings.Cut(part, "<-")
		name = strings.TrimSpace(name)
		if name == "" {
			continue
		}
		n := Node{Key: taskid.NewKey(name), Spec: []byte("spec of " + name), Order: int64(i),
			Deps: keysOf(strings.Fields(deps)...)}
		if note != "" {
			_, o := options(strings.Fields(note))
			a := &Annotations{AllowOtherWorkers: o["loose"] != "", Resources: resources(o["resources"]),
				NotQueued: o["not-queued"] != ""}
			if o["workers"] != "" {
				a.Workers = strings.Split(o["workers"], ",")
			}
			a.Retries, _ = strconv.Atoi(o["retries"])
			if p, ok := o["priority"]; ok {
				a.HasPriority = true
				a.Priority, _ = strconv.ParseFloat(p, 64)
			}
			n.Annotations = a
			n.Needs, n.Producer = abilities(o["needs"]), o["producer"] != ""
		}
		ev.Graph.Nodes = append(ev.Graph.Nodes, n)
	}
	switch want := opt["want"]; want {
	case "": // all without dependents
		var needed []taskid.Key
		for _, n := range ev.Graph.Nodes {
			needed = append(needed, n.Deps...)
		}
		for _, n := range ev.Graph.Nodes {
			if !slices.Contains(needed, n.Key) {
				ev.Keys = append(ev.Keys, n.Key)
			}
		}
	case "nothing":
	default:
		ev.Keys = keysOf(strings.Split(want, ",")...)
	}
	return ev, nil
}
