package ucx

import (
	"encoding/json"
	"reflect"
	"testing"
)

// Shared memory is left out where two processes would hang over it.
func TestContactRoute(t *testing.T) {
	all, net := WorkerAddress("all"), WorkerAddress("net")
	old, recent := &LibraryInfo{Major: 1, Minor: 13}, &LibraryInfo{Major: 1, Minor: 21}
	for _, tc := range []struct {
		about string
		c     Contact
		mine  *LibraryInfo
		at    uint64
		want  WorkerAddress
	}{
		{"one machine", Contact{all, net, 1, 13, 7}, old, 7, all},
		{"two releases that understand each other", Contact{all, net, 1, 16, 7}, recent, 7, all},
		{"two that do not", Contact{all, net, 1, 15, 7}, recent, 7, net},
		{"two that do not, the other way round", Contact{all, net, 1, 21, 7}, old, 7, net},
		{"another network namespace, or machine", Contact{all, net, 1, 21, 8}, recent, 7, net},
		{"a peer that does not know where it is", Contact{all, net, 1, 21, 0}, recent, 7, all},
		{"this side does not know", Contact{all, net, 1, 21, 8}, recent, 0, all},
		{"no network", Contact{all, nil, 1, 21, 8}, recent, 7, all},
	} {
		if got := tc.c.route(tc.mine, tc.at); string(got) != string(tc.want) {
			t.Errorf("%s: %q, want %q", tc.about, got, tc.want)
		}
	}
}

// A worker's contact survives JSON, and leads to the worker.
func TestContact(t *testing.T) {
	a, b := newWorker(t, Config{}, WorkerConfig{}), newWorker(t, Config{}, WorkerConfig{})
	c, err := b.Contact()
	if err != nil {
		t.Fatal(err)
	}
	if c.Home == 0 || c.Major == 0 || len(c.Address) == 0 {
		t.Errorf("contact %+v", c)
	}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var again Contact
	if err := json.Unmarshal(text, &again); err != nil || !reflect.DeepEqual(c, again) {
		t.Errorf("%+v became %+v: %v", c, again, err)
	}
	if got := a.Route(again); string(got) != string(c.Address) {
		t.Error("not the whole address on one machine")
	}
}
