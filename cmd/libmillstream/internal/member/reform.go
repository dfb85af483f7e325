package member

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.millstream.dev/clique"
	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/commaddr"
)

// Reform needs no other connections than the listeners of the members. The lowest rank that is alive leads: the others
// connect to it, it chooses the ID of the new clique, collects the contacts and returns the ticket.

// reformKind identifies the channels of Reform.
const reformKind = "millstream-reform"

// Pauses of Reform: between two attempts, and between two checks that ranks which have not connected are alive.
const (
	attemptPause = 20 * time.Millisecond
	checkPause   = 100 * time.Millisecond
	dialTime     = 30 * time.Second
)

// seat is a rank in the ticket of a clique.
type seat struct {
	Worker  string `json:"worker"`
	Address string `json:"address"`
}

// reformHello is the first message of a rank to the leader.
type reformHello struct {
	ID   string `json:"id"` // of the clique that has failed
	Rank int    `json:"rank"`
}

// survivor is a connection of another rank to this one.
type survivor struct {
	rank int
	c    comm.Comm
	done chan struct{} // closed when the connection is no longer needed
}

// seats returns the ranks of a ticket.
func seats(ticket string) ([]seat, error) {
	var t struct {
		Ranks []seat `json:"ranks"`
	}
	err := json.Unmarshal([]byte(ticket), &t)
	return t.Ranks, err
}

// acceptSurvivor passes the connection of another rank to Reform, when that is called.
func (m *Member) acceptSurvivor(_ context.Context, b []byte) (func(context.Context, comm.Comm), error) {
	var h reformHello
	if err := json.Unmarshal(b, &h); err != nil {
		return nil, fmt.Errorf("member: invalid hello: %w", err)
	}
	m.mu.Lock()
	n := len(m.seats)
	m.mu.Unlock()
	if h.ID != m.cfg.ID || h.Rank < 0 || h.Rank >= n {
		return nil, fmt.Errorf("member: no rank %d of clique %.80q here", h.Rank, h.ID)
	}
	return func(ctx context.Context, c comm.Comm) {
		s := &survivor{h.Rank, c, make(chan struct{})}
		select {
		case m.survivors <- s:
		case <-ctx.Done():
			return
		}
		select {
		case <-s.done:
		case <-ctx.Done():
		}
	}, nil
}

// errRetry is returned by an attempt that failed because of another rank.
var errRetry = errors.New("member: a rank was lost during reform")

// Reform forms a clique of the ranks that are alive, usually after one was lost. All of them call it; ranks that have
// not called it after wait are left out, and the lost rank is not waited for. They keep their order. The caller closes
// m, which does not affect the result.
func (m *Member) Reform(ctx context.Context, wait time.Duration) (*Member, error) {
	r, err := m.Rank()
	if err != nil {
		return nil, err
	}
	if m.part {
		return nil, fmt.Errorf("member: %w: part of a communicator; reform the one that was split", ErrInvalid)
	}
	m.reforming.Lock()
	defer m.reforming.Unlock()
	defer m.dismiss()
	ctx, cancel := m.context(ctx)
	defer cancel()
	for {
		out, err := m.attempt(ctx, r, wait)
		if !errors.Is(err, errRetry) {
			return out, err
		}
		select {
		case <-time.After(attemptPause):
		case <-ctx.Done():
			return nil, fmt.Errorf("member: reform: %w", errors.Join(context.Cause(ctx), err))
		}
	}
}

// dismiss closes the connections of ranks that were not used.
func (m *Member) dismiss() {
	for {
		select {
		case s := <-m.survivors:
			close(s.done)
		default:
			return
		}
	}
}

// failedRank returns the rank whose failure has ended the clique, -1 if there is none.
func failedRank(r *clique.Rank) int {
	if failed := new(clique.RankError); errors.As(r.Err(), &failed) {
		return failed.Rank
	}
	return -1
}

// attempt finds the leader, and leads or follows.
func (m *Member) attempt(ctx context.Context, r *clique.Rank, wait time.Duration) (*Member, error) {
	lost := failedRank(r)
	for rank := range r.Size() {
		if rank == r.Rank() {
			return m.lead(ctx, r, lost, wait)
		}
		if rank == lost {
			continue
		}
		hello, err := json.Marshal(reformHello{m.cfg.ID, r.Rank()})
		if err != nil {
			return nil, err
		}
		dial, cancel := context.WithTimeout(ctx, dialTime)
		c, err := m.peers.Open(dial, m.seats[rank].Address, reformKind, hello)
		cancel()
		if err != nil {
			if ctx.Err() != nil {
				return nil, fmt.Errorf("member: reform: %w", context.Cause(ctx))
			}
			continue // not alive
		}
		defer c.Abort()
		return m.follow(ctx, c)
	}
	return nil, errRetry
}

// follow gets the ID of the new clique from the leader, sends a contact and joins with the ticket.
func (m *Member) follow(ctx context.Context, c comm.Comm) (*Member, error) {
	id, err := readText(ctx, c)
	if err != nil {
		return nil, retry(ctx, err)
	}
	out, contact, err := m.reopen(ctx, id)
	if err != nil {
		return nil, err
	}
	var ticket string
	if err = writeText(ctx, c, contact); err == nil {
		ticket, err = readText(ctx, c)
	}
	if err != nil {
		_ = out.Close()
		return nil, retry(ctx, err)
	}
	return out.joined(ctx, ticket)
}

// lead waits for the other ranks and forms the clique with them.
func (m *Member) lead(ctx context.Context, r *clique.Rank, lost int, wait time.Duration) (*Member, error) {
	all, err := m.gather(ctx, r, lost, wait)
	defer func() {
		for _, s := range all {
			close(s.done)
		}
	}()
	if err != nil {
		return nil, err
	}
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	out, contact, err := m.reopen(ctx, hex.EncodeToString(random[:]))
	if err != nil {
		return nil, err
	}
	ticket, err := exchange(ctx, out.cfg.ID, contact, all)
	if err != nil {
		_ = out.Close()
		return nil, retry(ctx, err)
	}
	return out.joined(ctx, ticket)
}

// exchange sends the ID to all ranks, receives their contacts and sends them the ticket.
func exchange(ctx context.Context, id, contact string, all map[int]*survivor) (ticket string, err error) {
	for _, s := range all {
		if err := writeText(ctx, s.c, id); err != nil {
			return "", err
		}
	}
	contacts := []string{contact}
	for _, s := range all {
		text, err := readText(ctx, s.c)
		if err != nil {
			return "", err
		}
		contacts = append(contacts, text)
	}
	if ticket, err = Ticket(contacts); err != nil {
		return "", err
	}
	for _, s := range all {
		if err := writeText(ctx, s.c, ticket); err != nil {
			return "", err
		}
	}
	return ticket, nil
}

// gather waits until every other rank has connected or is not alive, at most for wait.
func (m *Member) gather(ctx context.Context, r *clique.Rank, lost int, wait time.Duration) (map[int]*survivor, error) {
	all, dead := map[int]*survivor{}, map[int]bool{lost: true}
	late := time.NewTimer(wait)
	defer late.Stop()
	for {
		missing := 0
		for rank := range r.Size() {
			if rank != r.Rank() && all[rank] == nil && !dead[rank] {
				missing++
			}
		}
		if missing == 0 {
			return all, nil
		}
		select {
		case s := <-m.survivors:
			if old := all[s.rank]; old != nil {
				close(old.done) // the rank has connected again
			}
			all[s.rank] = s
		case <-time.After(checkPause):
			for rank := range r.Size() {
				if rank != r.Rank() && all[rank] == nil && !dead[rank] {
					dead[rank] = !m.alive(ctx, rank)
				}
			}
		case <-late.C:
			return all, nil
		case <-ctx.Done():
			return all, fmt.Errorf("member: reform: %w", context.Cause(ctx))
		}
	}
}

// alive reports whether the listener of a rank accepts connections.
func (m *Member) alive(ctx context.Context, rank int) bool {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	c, err := m.peers.Network.Dial(ctx, m.seats[rank].Address, m.peers.Dial)
	if err != nil {
		return false
	}
	c.Abort()
	return true
}

// reopen opens a member of the new clique, on another port.
func (m *Member) reopen(ctx context.Context, id string) (*Member, string, error) {
	cfg := m.cfg
	cfg.ID = id
	if host, _, err := comm.AddressHostPort(cfg.Listen); err == nil {
		scheme, _ := commaddr.Parse(cfg.Listen)
		cfg.Listen = commaddr.Unparse(scheme, commaddr.UnparseHostPort(host, 0))
	}
	out, contact, err := Open(ctx, cfg)
	if err == nil {
		out.timeout.Store(m.timeout.Load())
		out.stream.Store(m.stream.Load())
	}
	return out, contact, err
}

// joined joins a clique, or closes the member.
func (m *Member) joined(ctx context.Context, ticket string) (*Member, error) {
	if err := m.Join(ctx, ticket); err != nil {
		_ = m.Close()
		return nil, fmt.Errorf("member: reform: %w", err)
	}
	return m, nil
}

// retry returns errRetry with the cause, or the reason why ctx has ended.
func retry(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("member: reform: %w", context.Cause(ctx))
	}
	return fmt.Errorf("%w: %w", errRetry, err)
}
