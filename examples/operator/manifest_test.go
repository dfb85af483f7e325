//go:build examples

package operator

import (
	"bytes"
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// port is a named port of a container or a service.
type port struct {
	Name          string
	Protocol      string
	ContainerPort int    `yaml:"containerPort"`
	Port          int    `yaml:"port"`
	TargetPort    string `yaml:"targetPort"`
}

// pod has the fields of the specification of a pod that the test reads.
type pod struct {
	Containers []struct {
		Name, Image    string
		Args           []string
		Ports          []port
		ReadinessProbe struct {
			HTTPGet struct{ Port, Path string } `yaml:"httpGet"`
		} `yaml:"readinessProbe"`
		SecurityContext struct {
			RunAsNonRoot bool `yaml:"runAsNonRoot"`
			RunAsUser    int  `yaml:"runAsUser"`
		} `yaml:"securityContext"`
	}
}

// document is one of the manifest: the fields of its three kinds.
type document struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct{ Name string }
	Spec       struct {
		Scheduler struct {
			Spec    pod
			Service struct {
				Selector map[string]string
				Ports    []port
			}
		}
		Worker struct {
			Replicas int
			Spec     pod
		}
		Cluster          string // of the autoscaler
		Minimum, Maximum int
		PodSelector      struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		} `yaml:"podSelector"`
	}
}

// manifest returns the documents of cluster.yaml by kind.
func manifest(t *testing.T) map[string]document {
	t.Helper()
	text, err := os.ReadFile("cluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]document{}
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var doc document
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return kinds
		}
		if err != nil {
			t.Fatal(err)
		}
		kinds[doc.Kind] = doc
	}
}

// TestManifest checks that the parts of the manifest name each other as the operator expects.
func TestManifest(t *testing.T) {
	kinds := manifest(t)
	cluster, policy := kinds["DaskCluster"], kinds["NetworkPolicy"]
	name := cluster.Metadata.Name
	if len(kinds) != 3 || cluster.APIVersion != "kubernetes.dask.org/v1" || name == "" {
		t.Fatalf("got %d documents and cluster %q of %s, want 3", len(kinds), name, cluster.APIVersion)
	}
	scaler := kinds["DaskAutoscaler"].Spec
	if scaler.Cluster != name || scaler.Minimum < 1 || scaler.Maximum < scaler.Minimum {
		t.Errorf("the autoscaler has cluster %q, %d to %d workers", scaler.Cluster, scaler.Minimum, scaler.Maximum)
	}
	const label = "dask.org/cluster-name"
	service := cluster.Spec.Scheduler.Service
	if service.Selector[label] != name || policy.Spec.PodSelector.MatchLabels[label] != name {
		t.Errorf("the service selects %v, the policy %v, want cluster %s", service.Selector,
			policy.Spec.PodSelector.MatchLabels, name)
	}
	scheduler := cluster.Spec.Scheduler.Spec.Containers[0]
	// The operator connects to the service by these names, workers to port 8786.
	for want, number := range map[string]int{"tcp-comm": 8786, "http-dashboard": 8787} {
		in := func(p port) bool { return p.Name == want && (p.ContainerPort == number || p.Port == number) }
		if !slices.ContainsFunc(scheduler.Ports, in) || !slices.ContainsFunc(service.Ports, in) {
			t.Errorf("no port %s with number %d of container and service", want, number)
		}
	}
	if probe := scheduler.ReadinessProbe.HTTPGet; probe.Port != "http-dashboard" || probe.Path != "/health" {
		t.Errorf("got readiness probe %+v", probe)
	}
	for _, c := range append(cluster.Spec.Worker.Spec.Containers, scheduler) {
		if !c.SecurityContext.RunAsNonRoot || c.SecurityContext.RunAsUser != 10001 {
			t.Errorf("container %s: got %+v, want user 10001 of the image", c.Name, c.SecurityContext)
		}
		if !regexp.MustCompile(`:\d+\.\d+\.\d+$`).MatchString(c.Image) {
			t.Errorf("container %s: image %s has no version", c.Name, c.Image)
		}
	}
	if args := strings.Join(cluster.Spec.Worker.Spec.Containers[0].Args, " "); !strings.Contains(args,
		"--name $(DASK_WORKER_NAME)") {
		t.Errorf("workers have the arguments %q; the operator retires them by name", args)
	}
}
