// Package gateway connects a scheduler with the server of dask-gateway, as the Python module
// dask_gateway.scheduler_preload does for a Dask scheduler: heartbeats with the workers, requests to scale and to
// adapt, and the end of an idle cluster.
package gateway

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// Module is the name of the preload that this package replaces.
const Module = "dask_gateway.scheduler_preload"

// maxToken bounds the size of the file of a token.
const maxToken = 64 << 10

// Options are the arguments of the preload and the environment of a scheduler that dask-gateway has started.
type Options struct {
	// Listen is the host:port of the API that the server of dask-gateway calls.
	Listen string
	// Adaptive is the time between two decisions about the number of workers, Heartbeat that between two messages to
	// the server (0: only after changes), and Idle the time after which an idle cluster ends (0: never).
	Adaptive, Heartbeat, Idle time.Duration
	// Server is the URL of the server's API, Cluster the name of the cluster there, and Token its secret.
	Server, Cluster, Token string
}

// Split returns the arguments of this preload and those of others.
func Split(argv []string) (own, others []string) {
	for i := 0; i < len(argv); i++ {
		if !strings.HasPrefix(argv[i], "--dg-") {
			others = append(others, argv[i])
			continue
		}
		own = append(own, argv[i])
		if !strings.Contains(argv[i], "=") && i+1 < len(argv) {
			i++
			own = append(own, argv[i])
		}
	}
	return own, others
}

// ParseOptions reads the arguments --dg-… of the preload and the variables DASK_GATEWAY_….
func ParseOptions(argv []string, getenv func(string) string) (Options, error) {
	o := Options{Listen: ":0", Adaptive: 3 * time.Second, Heartbeat: 15 * time.Second}
	for len(argv) > 0 {
		name, value, ok := strings.Cut(argv[0], "=")
		argv = argv[1:]
		if !ok {
			if len(argv) == 0 {
				return o, fmt.Errorf("argument %s of %s has no value", name, Module)
			}
			value, argv = argv[0], argv[1:]
		}
		var err error
		switch name {
		case "--dg-api-address":
			o.Listen = value
			_, _, err = net.SplitHostPort(value)
		case "--dg-adaptive-period":
			if o.Adaptive, err = seconds(value); err == nil && o.Adaptive == 0 {
				err = errors.New("want a number above 0")
			}
		case "--dg-heartbeat-period":
			o.Heartbeat, err = seconds(value)
		case "--dg-idle-timeout":
			o.Idle, err = seconds(value)
		default:
			err = errors.New("unknown")
		}
		if err != nil {
			return o, fmt.Errorf("argument %s %s of %s: %w", name, value, Module, err)
		}
	}
	return o, o.environment(getenv)
}

// environment reads the variables that dask-gateway sets.
func (o *Options) environment(getenv func(string) string) error {
	for name, to := range map[string]*string{
		"DASK_GATEWAY_CLUSTER_NAME": &o.Cluster, "DASK_GATEWAY_API_URL": &o.Server, "DASK_GATEWAY_API_TOKEN": &o.Token,
	} {
		if *to = getenv(name); *to == "" {
			return fmt.Errorf("%s needs the environment variable %s, which dask-gateway sets", Module, name)
		}
	}
	u, err := url.Parse(o.Server)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("DASK_GATEWAY_API_URL %.200q: want a URL such as http://host:8000/api", o.Server)
	}
	if strings.Contains(o.Token, "/") { // the path of a file
		f, err := os.Open(o.Token)
		if err != nil {
			return fmt.Errorf("DASK_GATEWAY_API_TOKEN: %w", err)
		}
		defer f.Close()
		b, err := io.ReadAll(io.LimitReader(f, maxToken))
		if err != nil {
			return fmt.Errorf("DASK_GATEWAY_API_TOKEN: %w", err)
		}
		o.Token = strings.TrimSpace(string(b))
	}
	return nil
}

// seconds parses a number of seconds; negative ones count as 0, as in dask-gateway.
func seconds(text string) (time.Duration, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) || f > math.MaxInt32 {
		return 0, errors.New("want a number of seconds")
	}
	return time.Duration(max(f, 0) * float64(time.Second)), nil
}
