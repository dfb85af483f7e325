package state

import (
	"fmt"
	"strings"

	"go.millstream.dev/internal/task/taskid"
)

// formatAction returns an action in the form of traces. It reads only the action and the state.
func formatAction(s *State, a *Action) string {
	to := "server"
	if a.Worker >= 0 {
		to = fmt.Sprintf("worker#%d", a.Worker)
		if w := s.Worker(a.Worker); w != nil {
			to = w.name
		}
	}
	if a.Client >= 0 {
		to = fmt.Sprintf("client#%d", a.Client)
		if c := s.Client(a.Client); c != nil {
			to = c.name
		}
	}
	words := []string{to, a.Kind.String()}
	switch a.Kind {
	case ComputeTask:
		words = append(words, a.Key.String(), fmt.Sprintf("run=%d", a.RunID))
		for i := range a.Task.NumDeps() {
			d := a.Task.Dep(i)
			words = append(words, d.key.String()+"@"+holderNames(d))
		}
	case KeyErred:
		words = append(words, a.Key.String(), fmt.Sprintf("%q", a.Failure.ExceptionText))
	case KeyInMemory, LostData, TaskRetried, StealRequest:
		words = append(words, a.Key.String())
		if a.Kind == StealRequest {
			words = append(words, fmt.Sprintf("n=%d", a.Number))
		}
		if a.Text != "" {
			words = append(words, "value="+a.Text)
		}
	case TaskMoved:
		words = append(words, a.Key.String(), a.From.String(), a.To.String())
	case StatusChange:
		words = append(words, a.Status.String())
	case RequestDone:
		words = append(words, fmt.Sprint(a.Number))
	case ForgetPeer, CloseWorker, WorkerRemoved, LogEvent:
		words = append(words, a.Text)
	}
	for _, k := range a.Keys {
		words = append(words, k.String())
	}
	for _, t := range a.Tasks {
		words = append(words, t.key.String()+"@"+holderNames(t))
	}
	if a.Kind == CancelledKeys {
		words = append(words, fmt.Sprintf("(%s)", a.Text))
	}
	return strings.Join(words, " ")
}

func holderNames(t *Task) string {
	var names []string
	for i := range t.NumHolders() {
		names = append(names, t.Holder(i).name)
	}
	return strings.Join(names, ",")
}

func formatActions(s *State, list []Action) string {
	var b strings.Builder
	for i := range list {
		if list[i].Kind != ActionNone {
			b.WriteString(formatAction(s, &list[i]))
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func keysOf(names ...string) []taskid.Key {
	keys := make([]taskid.Key, len(names))
	for i, n := range names {
		keys[i] = taskid.NewKey(n)
	}
	return keys
}
