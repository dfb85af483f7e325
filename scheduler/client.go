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
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/wire"
)

// registerClient takes a client in. The comm becomes its stream.
func (s *Scheduler) registerClient(ctx context.Context, r *rpc.Request) (any, error) {
	var in struct {
		Client   string `rpc:"client"`
		Versions any    `rpc:"versions,optional"`
		// Millstream is what our clients say about their program.
		Millstream msgpack.Map `rpc:"millstream,optional"`
	}
	err := r.Args(&in)
	if err == nil && (in.Client == "" || peers.IsPart(in.Client)) {
		err = fmt.Errorf("register-client: a client needs a name of its own, got %q", in.Client)
	}
	if err == nil {
		err = s.checkRelease(ctx, "client "+in.Client, in.Versions)
	}
	if err != nil {
		s.log.Warn("a client is refused", "peer", r.Comm.PeerAddr(), "error", err)
		// Clients do not ask for a reply: what they look at is this field.
		hello := msgpack.MapOf("op", "stream-start", "warning", "", "error", err.Error())
		return rpc.NoReply, errors.Join(peers.Say(ctx, r.Comm, []any{hello}), r.Comm.Close())
	}
	r.Takeover()
	st := s.streams.Open(r.Comm)
	name, versions, program := strings.Clone(in.Client), wire.Clone(in.Versions), peers.ProgramOf(in.Millstream)
	if err := s.loop.Do(ctx, func() { s.addClient(name, versions, program, st) }); err != nil {
		return nil, err
	}
	st.Out.Start()
	s.streamEnded(st, (&reader{s: s, st: st}).read(ctx))
	return rpc.NoReply, nil
}

// addClient runs in the loop.
func (s *Scheduler) addClient(name string, versions any, p *peers.Program, st *peers.Stream) {
	c := s.clientNamed(name)
	if c.Stream != nil && !c.Stream.Gone {
		// It has come back before we noticed that it had gone.
		c.Stream.End()
	}
	c.Stream, c.Versions, c.LastSeen, c.AwayFrom = st, versions, s.loop.Now(), time.Time{}
	c.Program, c.Short = p, ""
	st.Client = c
	s.totals.ClientsAdded++
	out := st.Begin()
	hello := append(msgpack.MapOf("op", "stream-start"), s.versionCheck(versions, "Client")...)
	if st.Ours {
		hello.Set("millstream", msgpack.MapOf("id", s.id, "epoch", s.journal.Epoch()))
	}
	if text := s.workers.Stale(p); text != "" && !s.cfg.AnyBuild {
		s.log.Warn("workers are stale", "client", name, "detail", text)
		hello.Set("warning", strings.TrimSpace(hello.GetString("warning")+"\n"+text))
	}
	out.Body, _ = msgpack.Append(out.Body, hello)
	s.topics.Publish(msgpack.MapOf("action", "add-client", "client", name), "all", name)
	s.log.Info("client connected", "client", name, "peer", st.Comm.PeerAddr())
}

// clientNamed returns a client, new if need be.
func (s *Scheduler) clientNamed(name string) *peers.Client {
	if c := s.clients.ByName[name]; c != nil {
		return c
	}
	c := &peers.Client{Name: name, Part: peers.IsPart(name), LastSeen: s.loop.Now()}
	ev := state.AddClient{Name: name, Data: c}
	s.apply(&ev)
	c.ID = ev.Client
	s.clients.ByName[name] = c
	s.journal.Client(name, true)
	return c
}

// clientEnded is the end of a client's stream. One of ours that did not say goodbye may
// come back.
func (s *Scheduler) clientEnded(st *peers.Stream) {
	c := st.Client
	st.End()
	s.totals.ClientsRemoved++
	if c.Stream != st {
		return
	}
	c.Stream = nil
	if st.Ours && !st.Leaving && s.cfg.Forget > 0 {
		c.AwayFrom = s.loop.Now()
		s.log.Info("client is away", "client", c.Name, "kept", s.cfg.Forget)
		return
	}
	s.removeClient(c)
}

// removeClient forgets a client and releases what only it wanted.
func (s *Scheduler) removeClient(c *peers.Client) {
	if s.clients.ByName[c.Name] != c {
		return
	}
	delete(s.clients.ByName, c.Name)
	s.topics.UnsubscribeAll(c.Name)
	s.apply(&state.RemoveClient{Client: c.ID})
	s.journal.Client(c.Name, false)
	if !c.Part {
		s.topics.Publish(msgpack.MapOf("action", "remove-client", "client", c.Name), "all", c.Name)
		s.log.Info("remove client", "client", c.Name)
	}
}

// checkClients forgets clients that have been away for too long.
func (s *Scheduler) checkClients() {
	for _, c := range s.clients.ByName {
		if !c.AwayFrom.IsZero() && s.loop.Now().Sub(c.AwayFrom) > s.cfg.Forget {
			s.removeClient(c)
		}
	}
}

// desire makes a client want keys; its name is enough.
func (s *Scheduler) desire(name string, keys ...task.Key) {
	c := s.clientNamed(name)
	s.journal.Desire(name, keys)
	ev := &s.events.desires
	*ev = state.ClientDesires{Client: c.ID, Keys: keys}
	s.apply(ev)
}

// releaseStep is how many keys are released at once, see Config.releaseStep.
const releaseStep = 4096

// release takes keys back that a client wanted.
func (s *Scheduler) release(name string, keys ...task.Key) {
	c := s.clients.ByName[name]
	if c == nil || len(keys) == 0 {
		return
	}
	s.journal.Release(name, keys)
	// A client that lets go of a million results does so in steps: what comes of a step is
	// said in memory that the next one uses again.
	for part := range slices.Chunk(keys, s.cfg.releaseStep) {
		ev := &s.events.releases
		*ev = state.ClientReleases{Client: c.ID, Keys: part}
		s.apply(ev)
	}
}
