package client

import (
	"slices"
	"strings"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/wire"
)

// Shortage is a set of tasks that the scheduler cannot start because no worker can run them. The scheduler reports it
// after a few seconds (scheduler.Config.UnrunnableAfter), and again until the tasks can run.
type Shortage struct {
	// Reason is one of no-workers, functions, build, ability, workers, resources, restrictions and paused.
	Reason string
	// Text says in one sentence what is missing and what to do.
	Text string
	// Tasks is how many tasks wait, of all clients.
	Tasks int
	// Keys are futures of this client that wait for the tasks; More reports whether there are others.
	Keys []task.Key
	More bool
}

// maxShortages bounds what a scheduler can make a client remember.
const maxShortages = 100

// Shortages returns why tasks of this client cannot run at present; nil while all can, and always with
// Dask's scheduler, which does not report it.
func (c *Client) Shortages() []Shortage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.short)
}

// unrunnable takes the scheduler's word about tasks that cannot run. It replaces what was said before. The caller holds
// mu, and calls the function without it: that logs.
func (c *Client) unrunnable(m *wire.Message, raw []byte) (func(), error) {
	d, err := message(m, raw)
	if err != nil {
		return nil, err
	}
	var news []Shortage
	v, _ := d.Get("shortages")
	list, _ := v.([]any)
	repeat, _ := d.Get("repeat")
	before := map[string]bool{}
	for _, s := range c.short {
		before[s.Text] = true
	}
	c.forgetShortages()
	for _, v := range list[:min(len(list), maxShortages)] {
		e, _ := v.(wire.Dict)
		s := Shortage{Reason: strings.Clone(e.GetString("reason")), Text: strings.Clone(e.GetString("text"))}
		if n, ok := e.Get("tasks"); ok {
			count, _ := n.(int64)
			s.Tasks = int(count)
		}
		if more, ok := e.Get("more"); ok {
			s.More, _ = more.(bool)
		}
		keys, _ := e.Get("keys")
		for _, k := range asList(keys) {
			key, err := task.KeyOf(k)
			if err != nil {
				continue
			}
			if ks := c.keys[key]; ks != nil && !ks.status.ended() {
				ks.why = s.Text
				s.Keys = append(s.Keys, ks.key)
			}
		}
		c.short = append(c.short, s)
		if !before[s.Text] || repeat == true {
			news = append(news, s)
		}
	}
	mended := len(before) > 0 && len(c.short) == 0
	if c.shortNews != nil {
		close(c.shortNews)
		c.shortNews = nil
	}
	return func() {
		for _, s := range news {
			c.log.Warn("tasks wait: no worker can run them", "reason", s.Reason, "tasks", s.Tasks, "example",
				exampleOf(s.Keys), "detail", s.Text)
		}
		if mended {
			c.log.Info("tasks can run again")
		}
	}, nil
}

func exampleOf(keys []task.Key) string {
	if len(keys) == 0 {
		return ""
	}
	return keys[0].String()
}

func asList(v any) []any {
	list, _ := v.([]any)
	return list
}

// forgetShortages ends what the scheduler has said. The caller holds mu.
func (c *Client) forgetShortages() {
	for _, s := range c.short {
		for _, k := range s.Keys {
			if ks := c.keys[k]; ks != nil {
				ks.why = ""
			}
		}
	}
	c.short = nil
}

// whyPending says why a task that has not ended cannot run; "" when nothing is known. The caller holds mu.
func (c *Client) whyPending(ks *keyState) string {
	if ks.status.ended() {
		return ""
	}
	if ks.why != "" {
		return ks.why
	}
	for _, s := range c.short {
		if s.More {
			return "among others, tasks of this client wait: " + s.Text
		}
	}
	return ""
}

// whyWaiting is whyPending for the first of keys that has a reason. The caller holds mu.
func (c *Client) whyWaiting(keys []*keyState) string {
	if len(c.short) == 0 {
		return ""
	}
	for _, ks := range keys {
		if why := c.whyPending(ks); why != "" {
			return why
		}
	}
	return ""
}

// shortageNews returns a channel that is closed when the scheduler says something new about tasks that cannot run. The
// caller holds mu.
func (c *Client) shortageNews() <-chan struct{} {
	if c.shortNews == nil {
		c.shortNews = make(chan struct{})
	}
	return c.shortNews
}

// registry returns what graphs of this client need of their workers.
func (c *Client) registry() string {
	if c.cfg.AnyBuild {
		functions, _ := task.SplitHash(task.Hash())
		return functions
	}
	return task.Hash()
}
