package lloydfit

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

// A seed gives the initial centers of scikit-learn's kmeans_plusplus.
func TestPlusPlus(t *testing.T) {
	b, err := os.ReadFile("../../../../frame/kmeans/testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			Name     string
			K        int
			Seed     uint32
			X        [][]float64 // column by column
			PlusPlus [][]float64
		}
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, g := range file.Cases {
		if g.PlusPlus == nil {
			continue
		}
		checked++
		x := NewPart(0, g.X, make([]int32, len(g.X[0])))
		f := newFitter(alone{}, NewHost([]*Part[float64]{x}, 1, g.K, len(g.X)), 1, Params{K: g.K, Seed: g.Seed})
		f.rows = int64(x.rows())
		if err := f.plusPlus(t.Context(), []float64{float64(x.rows())}); err != nil {
			t.Fatal(err)
		}
		for c, want := range g.PlusPlus {
			for j, w := range want {
				if got := f.centers[c*f.d+j]; math.Abs(got-w) > 1e-6 {
					t.Errorf("%s: center %d is %v, want %v", g.Name, c, f.centers[c*f.d:(c+1)*f.d], want)
					break
				}
			}
		}
	}
	if checked == 0 {
		t.Error("no case of k-means++")
	}
}
