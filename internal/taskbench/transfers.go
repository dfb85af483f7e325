package taskbench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/worker"
)

// transfers are a worker's records of what it has moved.
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
		return nil, fmt.Errorf("%s answers %s", req.URL, resp.Status)
	}
	var list []worker.Transfer
	return list, json.NewDecoder(resp.Body).Decode(&list)
}

// lane names the lanes over which most bytes came between workers.
func (l *local) lane(ctx context.Context) (string, error) {
	bytes := map[string]int64{}
	for _, w := range l.workers {
		list, err := transfers(ctx, w)
		if err != nil {
			return "", err
		}
		for _, t := range list {
			if t.Incoming && t.Error == "" {
				bytes[t.Lane] += t.Bytes
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

// settle is how long tasks that compute have to begin before the fetch does.
const settle = 300 * time.Millisecond

// fetch moves a value from the first worker to the second, while every slot of both
// computes or none does, as often as asked. The best counts.
func (l *local) fetch(ctx context.Context, c command) (answer, error) {
	if len(l.workers) < 2 {
		return answer{}, errors.New("a fetch needs two workers")
	}
	best := answer{Bytes: c.Size}
	for i := range c.N {
		t, err := l.fetchOnce(ctx, c, int64(i))
		if err != nil {
			return answer{}, err
		}
		if best.Seconds == 0 || t.Duration < best.Seconds {
			best.Seconds, best.Lane = t.Duration, t.Lane
		}
	}
	return best, nil
}

func (l *local) fetchOnce(ctx context.Context, c command, seed int64) (worker.Transfer, error) {
	none := worker.Transfer{}
	source, target := l.workers[0], l.workers[1]
	value := blobFunc.Submit(ctx, l.client, client.Val(c.Size), client.Val(seed), client.Workers(source.Address), client.Impure())
	defer value.Release()
	if err := value.Wait(ctx); err != nil {
		return none, err
	}
	spins, err := l.spin(ctx, c)
	if err != nil {
		return none, err
	}
	defer client.ReleaseAll(spins)
	length := lengthFunc.Submit(ctx, l.client, value, client.Workers(target.Address), client.Impure())
	defer length.Release()
	n, err := length.Result(ctx)
	if err != nil {
		return none, err
	}
	if n != c.Size {
		return none, fmt.Errorf("%d bytes of %d arrived", n, c.Size)
	}
	list, err := transfers(ctx, target)
	if err != nil {
		return none, err
	}
	at := -1
	for i, t := range list {
		if t.Incoming && t.Error == "" && t.Bytes >= c.Size {
			at = i // the last one
		}
	}
	if at < 0 {
		return none, fmt.Errorf("worker %s has no record of the fetch", target.Name)
	}
	times, err := client.Gather(ctx, spins)
	if err != nil {
		return none, err
	}
	begin := unixSeconds(list[at].Start)
	for _, s := range times {
		if len(s) != 2 || begin < s[0] || begin+list[at].Duration > s[1] {
			return none, fmt.Errorf("the fetch, from %.3f for %.3f s, was not wholly within the time that every slot computed, %v", begin, list[at].Duration, s)
		}
	}
	return list[at], nil
}

// spin makes every slot of the first two workers compute.
func (l *local) spin(ctx context.Context, c command) ([]*client.Future[[]float64], error) {
	if !c.Busy {
		return nil, nil
	}
	var out []*client.Future[[]float64]
	for _, w := range l.workers[:2] {
		for range l.threads {
			out = append(out, spinFunc.Submit(ctx, l.client, client.Val(c.Spin), client.Workers(w.Address), client.Impure()))
		}
	}
	select {
	case <-time.After(settle):
		return out, nil
	case <-ctx.Done():
		client.ReleaseAll(out)
		return nil, ctx.Err()
	}
}
