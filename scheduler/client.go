package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/task"
	"go.millstream.dev/wire"
)

// client is one who wants keys: a client, or a part of the scheduler, such as a variable,
// which has no stream. The loop owns it.
type client struct {
	id       state.ClientID
	name     string
	versions any
	program  *program // nil for clients that do not say; see programOf
	short    string   // what it was last told to wait for, see reportShortages
	st       *stream  // nil while it is away, and for parts of the scheduler
	part     bool     // a part of the scheduler
	lastSeen time.Time
	awayFrom time.Time // when it lost its connection; zero while it is there
}

// registerClient takes a client in. The comm becomes its stream.
func (s *Scheduler) registerClient(ctx context.Context, r *rpc.Request) (any, error) {
	var in struct {
		Client   string `rpc:"client"`
		Versions any    `rpc:"versions,optional"`
		// Millstream is what our clients say about their program.
		Millstream msgpack.Map `rpc:"millstream,optional"`
	}
	err := r.Args(&in)
	if err == nil && (in.Client == "" || isPart(in.Client)) {
		err = fmt.Errorf("register-client: a client needs a name of its own, got %q", in.Client)
	}
	if err == nil {
		err = s.checkRelease(ctx, "client "+in.Client, in.Versions)
	}
	if err != nil {
		s.log.Warn("a client is refused", "peer", r.Comm.PeerAddr(), "error", err)
		// Clients do not ask for a reply: what they look at is this field.
		hello := msgpack.MapOf("op", "stream-start", "warning", "", "error", err.Error())
		return rpc.NoReply, errors.Join(s.say(ctx, r.Comm, []any{hello}), r.Comm.Close())
	}
	r.Takeover()
	st := s.newStream(r.Comm)
	name, versions, program := strings.Clone(in.Client), wire.Clone(in.Versions), programOf(in.Millstream)
	if err := s.loop.Do(ctx, func() { s.addClient(name, versions, program, st) }); err != nil {
		return nil, err
	}
	st.out.Start()
	s.streamEnded(st, st.read(ctx))
	return rpc.NoReply, nil
}

// isPart tells names that parts of the scheduler have as clients.
func isPart(name string) bool {
	return name == fireAndForget || strings.HasPrefix(name, "variable-") || strings.HasPrefix(name, "queue-") || strings.HasPrefix(name, "published-")
}

// addClient runs in the loop.
func (s *Scheduler) addClient(name string, versions any, p *program, st *stream) {
	c := s.clientNamed(name)
	if c.st != nil && !c.st.gone {
		// It has come back before we noticed that it had gone.
		c.st.end()
	}
	c.st, c.versions, c.lastSeen, c.awayFrom = st, versions, s.loop.Now(), time.Time{}
	c.program, c.short = p, ""
	st.client = c
	s.totals.clientsAdded++
	out := st.begin()
	hello := append(msgpack.MapOf("op", "stream-start"), s.versionCheck(versions, "Client")...)
	if st.ours {
		hello.Set("millstream", msgpack.MapOf("id", s.id, "epoch", s.journal.Epoch()))
	}
	if text := s.staleWorkers(p); text != "" {
		s.log.Warn("workers are stale", "client", name, "detail", text)
		hello.Set("warning", strings.TrimSpace(hello.GetString("warning")+"\n"+text))
	}
	out.Body, _ = msgpack.Append(out.Body, hello)
	s.topics.Publish(msgpack.MapOf("action", "add-client", "client", name), "all", name)
	s.log.Info("client connected", "client", name, "peer", st.comm.PeerAddr())
}

// clientNamed returns a client, new if need be.
func (s *Scheduler) clientNamed(name string) *client {
	if c := s.clients[name]; c != nil {
		return c
	}
	c := &client{name: name, part: isPart(name), lastSeen: s.loop.Now()}
	ev := state.AddClient{Name: name, Data: c}
	s.apply(&ev)
	c.id = ev.Client
	s.clients[name] = c
	s.journal.Client(name, true)
	return c
}

// clientEnded is the end of a client's stream. One of ours that did not say goodbye may
// come back.
func (s *Scheduler) clientEnded(st *stream) {
	c := st.client
	st.end()
	s.totals.clientsRemoved++
	if c.st != st {
		return
	}
	c.st = nil
	if st.ours && !st.leaving && s.cfg.Forget > 0 {
		c.awayFrom = s.loop.Now()
		s.log.Info("client is away", "client", c.name, "kept", s.cfg.Forget)
		return
	}
	s.removeClient(c)
}

// removeClient forgets a client and releases what only it wanted.
func (s *Scheduler) removeClient(c *client) {
	if s.clients[c.name] != c {
		return
	}
	delete(s.clients, c.name)
	s.topics.UnsubscribeAll(c.name)
	s.apply(&state.RemoveClient{Client: c.id})
	s.journal.Client(c.name, false)
	if !c.part {
		s.topics.Publish(msgpack.MapOf("action", "remove-client", "client", c.name), "all", c.name)
		s.log.Info("remove client", "client", c.name)
	}
}

// checkClients forgets clients that have been away for too long.
func (s *Scheduler) checkClients() {
	for _, c := range s.clients {
		if !c.awayFrom.IsZero() && s.loop.Now().Sub(c.awayFrom) > s.cfg.Forget {
			s.removeClient(c)
		}
	}
}

// desire makes a client want keys; its name is enough.
func (s *Scheduler) desire(name string, keys ...task.Key) {
	c := s.clientNamed(name)
	s.journal.Desire(name, keys)
	ev := &s.events.desires
	*ev = state.ClientDesires{Client: c.id, Keys: keys}
	s.apply(ev)
}

// releaseStep is how many keys are released at once, see Config.releaseStep.
const releaseStep = 4096

// release takes keys back that a client wanted.
func (s *Scheduler) release(name string, keys ...task.Key) {
	c := s.clients[name]
	if c == nil || len(keys) == 0 {
		return
	}
	s.journal.Release(name, keys)
	// A client that lets go of a million results does so in steps: what comes of a step is
	// said in memory that the next one uses again.
	for part := range slices.Chunk(keys, s.cfg.releaseStep) {
		ev := &s.events.releases
		*ev = state.ClientReleases{Client: c.id, Keys: part}
		s.apply(ev)
	}
}
