package tracker

import (
	"slices"
	"strings"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
)

// Shortage is a set of tasks that the scheduler cannot start because no worker can run them; package client documents
// its fields.
type Shortage struct {
	Reason string
	Text   string
	Tasks  int
	Keys   []task.Key
	More   bool
}

// maxShortages bounds the memory for reports of a scheduler.
const maxShortages = 100

// Shortages returns why tasks of this client cannot run at present.
func (t *Tracker) Shortages() []Shortage {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.short)
}

// applyUnrunnable applies a message about tasks that cannot run, which replaces the previous one. The caller holds mu,
// and calls the returned function without it: that logs.
func (t *Tracker) applyUnrunnable(ops *message.Ops) (func(), error) {
	var f message.Unrunnable
	if err := f.Read(ops); err != nil {
		return nil, err
	}
	var news []Shortage
	before := map[string]bool{}
	for _, s := range t.short {
		before[s.Text] = true
	}
	t.forgetShortages()
	for _, x := range f.Shortages[:min(len(f.Shortages), maxShortages)] {
		short := Shortage{Reason: strings.Clone(x.Reason), Text: strings.Clone(x.Text), Tasks: int(x.Tasks),
			More: x.More}
		for _, key := range x.Keys {
			if s := t.keys.Get(key); s != nil && !s.status.Ended() {
				s.why = short.Text
				short.Keys = append(short.Keys, s.key)
			}
		}
		t.short = append(t.short, short)
		if !before[short.Text] || f.Repeat {
			news = append(news, short)
		}
	}
	mended := len(before) > 0 && len(t.short) == 0
	if t.shortNews != nil {
		close(t.shortNews)
		t.shortNews = nil
	}
	return func() {
		for _, s := range news {
			t.cfg.Log.Warn("no worker can run the tasks", "reason", s.Reason, "tasks", s.Tasks, "example",
				exampleOf(s.Keys), "detail", s.Text)
		}
		if mended {
			t.cfg.Log.Info("tasks can run again")
		}
	}, nil
}

func exampleOf(keys []task.Key) string {
	if len(keys) == 0 {
		return ""
	}
	return keys[0].String()
}

// forgetShortages removes the shortages of the last message. The caller holds mu.
func (t *Tracker) forgetShortages() {
	for _, short := range t.short {
		for _, k := range short.Keys {
			if s := t.keys.Get(k); s != nil {
				s.why = ""
			}
		}
	}
	t.short = nil
}

// WhyPending returns why the first pending task of keys cannot run, or "" if no reason is known.
func (t *Tracker) WhyPending(keys ...*State) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.short) == 0 {
		return ""
	}
	for _, s := range keys {
		if why := t.whyPending(s); why != "" {
			return why
		}
	}
	return ""
}

// whyPending returns why a pending task cannot run. The caller holds mu.
func (t *Tracker) whyPending(s *State) string {
	if s.status.Ended() {
		return ""
	}
	if s.why != "" {
		return s.why
	}
	for _, short := range t.short {
		if short.More {
			return "tasks of this client and others wait: " + short.Text
		}
	}
	return ""
}

// ShortageNews returns a channel that is closed at the next message about tasks that cannot run.
func (t *Tracker) ShortageNews() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.shortNews == nil {
		t.shortNews = make(chan struct{})
	}
	return t.shortNews
}
