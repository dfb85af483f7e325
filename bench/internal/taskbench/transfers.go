package taskbench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/worker"
)

// transfers returns the records of transfers of a worker.
func transfers(ctx context.Context, w cluster.WorkerInfo) ([]worker.Transfer, error) {
	if w.HTTP == "" {
		return nil, fmt.Errorf("worker %s has no HTTP server", w.Name)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.HTTP+"/millstream/transfers", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: unexpected status %s", req.URL, resp.Status)
	}
	var list []worker.Transfer
	return list, json.NewDecoder(resp.Body).Decode(&list)
}

// transport returns the scheme over which most bytes were sent between workers.
func (l *local) transport(ctx context.Context) (string, error) {
	bytes := map[string]int64{}
	for _, w := range l.workers {
		list, err := transfers(ctx, w)
		if err != nil {
			return "", err
		}
		for _, t := range list {
			if t.Incoming && t.Error == "" {
				bytes[t.Scheme] += t.Bytes
			}
		}
	}
	var names []string
	for name := range bytes {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return int(min(1, max(-1, bytes[b]-bytes[a]))) })
	return strings.Join(names, "+"), nil
}

// fetch moves a value from the first worker to the second, repeatedly, while all slots of both are busy or idle. The
// best counts.
func (l *local) fetch(ctx context.Context, c command) (answer, error) {
	if len(l.workers) < 2 {
		return answer{}, errors.New("a fetch needs at least two workers")
	}
	best := answer{Bytes: c.Size}
	// The first fetch connects and does not count.
	if _, err := l.fetchOnce(ctx, command{Size: c.Size, Directory: c.Directory, Spin: c.Spin}, -1); err != nil {
		return answer{}, err
	}
	for i := range c.N {
		t, err := l.fetchOnce(ctx, c, int64(i))
		if err != nil {
			return answer{}, err
		}
		if best.Seconds == 0 || t.Duration < best.Seconds {
			best.Seconds, best.Transport = t.Duration, t.Scheme
		}
	}
	return best, nil
}

func (l *local) fetchOnce(ctx context.Context, c command, seed int64) (worker.Transfer, error) {
	none := worker.Transfer{}
	source, target := l.workers[0], l.workers[1]
	value := blobFunc.Submit(ctx, l.client, client.Val(c.Size), client.Val(seed), client.WithWorkers(source.Address),
		client.WithImpure())
	defer value.Release()
	if err := value.Wait(ctx); err != nil {
		return none, err
	}
	before, err := incoming(ctx, target, c.Size)
	if err != nil {
		return none, err
	}
	s := spinning{Marker: filepath.Join(c.Directory, fmt.Sprintf("spin-%d-%d", os.Getpid(), time.Now().UnixNano())),
		Seconds: c.Spin}
	spins, err := l.spin(ctx, c, s)
	if err != nil {
		return none, err
	}
	defer client.ReleaseAll(spins)
	defer s.stop()
	length := lengthFunc.Submit(ctx, l.client, value, client.WithWorkers(target.Address), client.WithImpure())
	defer length.Release()
	// The task itself has to wait for a slot.
	var moved []worker.Transfer
	err = until(ctx, c.Spin, "the value has arrived", func() (bool, error) {
		moved, err = incoming(ctx, target, c.Size)
		return len(moved) > len(before), err
	})
	if err == nil {
		err = s.stop()
	}
	if err != nil {
		return none, err
	}
	if n, err := length.Result(ctx); err != nil || n != c.Size {
		return none, fmt.Errorf("got %d of %d bytes: %w", n, c.Size, err)
	}
	times, err := client.Gather(ctx, spins)
	if err != nil {
		return none, err
	}
	move := moved[len(moved)-1]
	begin := unixSeconds(move.Start)
	for _, s := range times {
		if len(s) != 2 || begin < s[0] || begin+move.Duration > s[1] {
			return none, fmt.Errorf("the fetch, from %.3f for %.3f s, was not within the time in which every slot "+
				"computed, %v", begin, move.Duration, s)
		}
	}
	return move, nil
}

// incoming returns the records of a worker for fetches of at least a size.
func incoming(ctx context.Context, w cluster.WorkerInfo, size int64) ([]worker.Transfer, error) {
	list, err := transfers(ctx, w)
	return slices.DeleteFunc(list, func(t worker.Transfer) bool {
		return !t.Incoming || t.Error != "" || t.Bytes < size
	}), err
}

// clientFetch gets values from the first worker. The answer has the time of each Result.
func (l *local) clientFetch(ctx context.Context, c command) (answer, error) {
	out := answer{Bytes: c.Size}
	for i := range int64(1 + c.N) {
		seed := 1 + i%250
		value := blobFunc.Submit(ctx, l.client, client.Val(c.Size), client.Val(seed),
			client.WithWorkers(l.workers[0].Address), client.WithImpure())
		if err := value.Wait(ctx); err != nil {
			value.Release()
			return answer{}, err
		}
		begin := time.Now()
		got, err := value.Result(ctx)
		out.Times = append(out.Times, time.Since(begin).Seconds())
		value.Release()
		if err != nil {
			return answer{}, err
		}
		if n := bytes.Count(got, []byte{byte(seed)}); int64(len(got)) != c.Size || n != len(got) {
			return answer{}, fmt.Errorf("got %d bytes, %d of them right, want %d", len(got), n, c.Size)
		}
	}
	return out, nil
}
