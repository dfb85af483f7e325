package tcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"sync"

	"go.millstream.dev/comm"
)

// A comm between two processes with GPUs may have further connections, its lines: a large frame on a GPU is spread over
// them, as one connection is slower than the copy engine and often than the network. The listening side tells a token
// in its hello; the dialling side dials the same address again, shows the token, which line it is and of how many,
// and gets a byte when it is one. From then on no message travels on a line, only chunks of frames whose lengths are
// flagged as spread, in the order of the comm's messages.

// tokenSize is that of the token in bytes: nobody guesses it.
const tokenSize = 16

// lines are the further connections of a comm, in order. They end with it.
type lines struct {
	mu    sync.Mutex
	list  []*conn // nil until all are there; guarded by mu
	ended bool    // guarded by mu
	entry *deskEntry
}

// get returns them, nil for none.
func (l *lines) get() []*conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.list
}

// set gives a comm its lines, or ends them if it has ended.
func (l *lines) set(list []*conn) {
	l.mu.Lock()
	ended := l.ended
	if !ended {
		l.list = list
	}
	l.mu.Unlock()
	if ended {
		abortAll(list)
	}
}

// end is called when the comm is freed.
func (l *lines) end() {
	l.mu.Lock()
	l.ended = true
	list, entry := l.list, l.entry
	l.mu.Unlock()
	abortAll(list)
	entry.withdraw()
}

func abortAll(list []*conn) {
	for _, c := range list {
		if c != nil {
			c.Abort()
		}
	}
}

// addLines dials the lines of a new comm. A peer that does not answer on them, or refuses them, is no error: the comm
// then has none.
func (c *conn) addLines(ctx context.Context, connect func(context.Context) (net.Conn, error), limits comm.Limits,
	token []byte) error {
	total := c.staged.LineCount()
	if total < 2 || len(token) != tokenSize {
		return nil
	}
	list := make([]*conn, total-1)
	errs := make([]error, total-1)
	var dialled sync.WaitGroup
	for i := range list {
		dialled.Go(func() {
			join := append(bytes.Clone(token), byte(i+1), byte(total))
			list[i], errs[i] = dialLine(ctx, connect, limits, join)
		})
	}
	dialled.Wait()
	if errors.Join(errs...) != nil {
		abortAll(list)
		return context.Cause(ctx)
	}
	c.lines.set(list)
	return nil
}

// dialLine makes one line.
func dialLine(ctx context.Context, connect func(context.Context) (net.Conn, error), limits comm.Limits,
	join []byte) (*conn, error) {
	nc, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	c, _, err := greet(ctx, nc, greeting{limits: limits, join: join})
	if err != nil {
		return nil, err
	}
	if err := c.rguard.arm(ctx); err != nil {
		c.Abort()
		return nil, err
	}
	var admitted [1]byte
	err = c.full(admitted[:])
	c.disarm()
	if err != nil {
		c.Abort()
		return nil, err
	}
	return c, nil
}

// desk is where a listener brings lines to their comms.
type desk struct {
	mu      sync.Mutex
	entries map[[tokenSize]byte]*deskEntry // guarded by mu
}

// deskEntry is a comm whose lines may come. A nil one has none.
type deskEntry struct {
	desk  *desk
	token [tokenSize]byte

	// Guarded by the desk's lock.
	comm *conn   // nil until its handshake is done
	list []*conn // nil until the first line has come, then with gaps
	have int
}

// open makes an entry before the handshake of its comm, as the hello carries the token.
func (d *desk) open() *deskEntry {
	e := &deskEntry{desk: d}
	_, _ = rand.Read(e.token[:])
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.entries == nil {
		d.entries = map[[tokenSize]byte]*deskEntry{}
	}
	d.entries[e.token] = e
	return e
}

// admit names the comm, whose handshake is done. Its lines may be here already.
func (e *deskEntry) admit(c *conn) {
	if e == nil {
		return
	}
	c.lines.mu.Lock()
	c.lines.entry = e
	ended := c.lines.ended
	c.lines.mu.Unlock()
	if ended {
		e.withdraw()
		return
	}
	e.desk.mu.Lock()
	e.comm = c
	list := e.whole()
	e.desk.mu.Unlock()
	if list != nil {
		c.lines.set(list)
	}
}

// whole is the lines once all have come. The caller holds the desk's lock.
func (e *deskEntry) whole() []*conn {
	if e.comm == nil || e.list == nil || e.have < len(e.list) {
		return nil
	}
	return e.list
}

// withdraw ends an entry: no line is admitted any more, and those that wait for others end.
func (e *deskEntry) withdraw() {
	if e == nil {
		return
	}
	e.desk.mu.Lock()
	delete(e.desk.entries, e.token)
	list := e.list
	if e.whole() != nil {
		list = nil // they are the comm's
	}
	e.desk.mu.Unlock()
	abortAll(list)
}

// join makes a connection a line of the comm whose token it shows.
func (d *desk) join(ctx context.Context, c *conn, join []byte) error {
	if len(join) != tokenSize+2 {
		return fmt.Errorf("comm: a connection that wants to be a line shows %d bytes", len(join))
	}
	number, total := int(join[tokenSize]), int(join[tokenSize+1])
	if number < 1 || number >= total || total > comm.MaxStagedLines {
		return fmt.Errorf("comm: a connection wants to be line %d of %d", number, total)
	}
	// The comm may use or close the line as soon as it is in the list, and the holder of a turn owns its guard.
	c.rturn <- struct{}{}
	defer c.rturn.give()
	c.wturn <- struct{}{}
	defer c.wturn.give()
	d.mu.Lock()
	e := d.entries[[tokenSize]byte(join)]
	ok := e != nil && (e.list == nil || len(e.list) == total-1 && e.list[number-1] == nil)
	var list []*conn
	var of *conn
	if ok {
		if e.list == nil {
			e.list = make([]*conn, total-1)
		}
		e.list[number-1] = c
		e.have++
		list, of = e.whole(), e.comm
	}
	d.mu.Unlock()
	if !ok {
		return errors.New("comm: a connection wants to be a line of a comm that has none such")
	}
	if list != nil {
		of.lines.set(list)
	}
	// The peer uses it from now on. Should this fail, the line has ended and takes its comm with it when it is used.
	if err := c.wguard.arm(ctx); err != nil {
		return err
	}
	_, err := c.nc.Write([]byte{1})
	c.disarm()
	return err
}

// disarm makes a line forget the context of its handshake. What ends it from now on is its comm.
func (c *conn) disarm() {
	c.rguard.disarm()
	c.wguard.disarm()
}
