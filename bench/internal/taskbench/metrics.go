package taskbench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// scrape returns /metrics of a server: values by name and labels, as written there.
func scrape(ctx context.Context, hostport string) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+hostport+"/metrics", nil)
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
	return parseMetrics(resp.Body)
}

// parseMetrics parses the text format.
func parseMetrics(r io.Reader) (map[string]float64, error) {
	out := map[string]float64{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		text := strings.TrimSpace(lines.Text())
		i := strings.LastIndexByte(text, ' ')
		if text == "" || text[0] == '#' || i < 0 {
			continue
		}
		v, err := strconv.ParseFloat(text[i+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("metric %q: %w", text, err)
		}
		out[text[:i]] = v
	}
	return out, lines.Err()
}

// tasksIn returns the number of tasks in a state according to the metrics of a scheduler.
func tasksIn(metrics map[string]float64, state string) float64 {
	return metrics[`dask_scheduler_tasks{state="`+state+`"}`]
}
