package cuda_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
)

// A kernel of one's own: compiled, loaded and launched. y's ready event stands for the result.
func ExampleCompile() {
	ctx := context.Background()
	run := func(s *cuda.Stream, y, x *mem.Buffer, n int) error {
		code, err := cuda.Compile(ctx, `extern "C" __global__ void twice(float *y, const float *x, int n) {
			int i = blockIdx.x * blockDim.x + threadIdx.x;
			if (i < n) y[i] = 2 * x[i];
		}`, cuda.CompileOptions{Name: "twice.cu"})
		if err != nil {
			return err // with the compiler's words
		}
		m, err := cuda.LoadModule(s.Device(), code.Image)
		if err != nil {
			return err
		}
		twice, err := m.Function("twice")
		if err != nil {
			return err
		}
		grid := cuda.LaunchConfig{Grid: cuda.Dim{X: (n + 255) / 256}, Block: cuda.Dim{X: 256}}
		_, err = s.Launch(twice, grid, cuda.Out(y), cuda.In(x), cuda.Val(int32(n)))
		return err
	}
	_ = run
}

func ExampleCompileError() {
	_, err := cuda.Compile(context.Background(), "int f( {", cuda.CompileOptions{Name: "f.cu"})
	var e *cuda.CompileError
	switch {
	case errors.As(err, &e):
		fmt.Println(e.Name, e.Result, e.Log)
	case errors.Is(err, cuda.ErrNoCompiler):
		log.Print(err) // and where to get it
	}
}
