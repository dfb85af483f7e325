package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// requestTimeout bounds a request to the server of dask-gateway.
const requestTimeout = 30 * time.Second

// beat is the message to the server, with the names of workers.
type beat struct {
	Scheduler string   `json:"scheduler_address"`
	Dashboard string   `json:"dashboard_address"`
	API       string   `json:"api_address"`
	Count     int      `json:"count"`
	Active    []string `json:"active_workers"`
	Closing   []string `json:"closing_workers"`
	Closed    []string `json:"closed_workers"`
}

// send sends a heartbeat.
func (s *Service) send(ctx context.Context, b *beat) error {
	body, err := json.Marshal(b)
	if err != nil {
		return err
	}
	return s.do(ctx, http.MethodPost, "/heartbeat", body)
}

// end asks the server to end this cluster.
func (s *Service) end(ctx context.Context) error { return s.do(ctx, http.MethodDelete, "", nil) }

func (s *Service) do(ctx context.Context, method, path string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	target := s.Options.Server + "/v1/clusters/" + url.PathEscape(s.Options.Cluster) + path
	r, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "token "+s.Options.Token)
	r.Header.Set("Content-Type", "application/json")
	resp, err := s.http.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %.200q", method, target, resp.Status, text)
	}
	return nil
}
