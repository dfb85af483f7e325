package task

import (
	"context"
	"encoding/hex"
	"testing"
)

// The bytes of version 1: releases that support it must keep decoding them.
const goldenSpec = "4d5301a5742e696e6390010029"

func TestGoldenSpec(t *testing.T) {
	if got := hex.EncodeToString(specOf(t, incF, Val(41))); got != goldenSpec {
		t.Errorf("a call is written as %s, want %s", got, goldenSpec)
	}
	b, err := hex.DecodeString(goldenSpec)
	if err != nil {
		t.Fatal(err)
	}
	c, err := ParseCall(b)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := c.Run(context.Background(), nil); v != 42 || err != nil {
		t.Errorf("%v, %v", v, err)
	}
}
